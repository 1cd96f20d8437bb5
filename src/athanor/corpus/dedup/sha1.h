// SHA-1 of many short texts, where others chose it for their formats. It is no protection against anybody.
//
//   Sha1 sha1;
//   const uint64_t first_bytes = sha1.first_eight_bytes("five words in a row");  // little endian
//
// Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::dedup {

class Sha1 {
 public:
  Sha1();
  ~Sha1();
  Sha1(const Sha1&) = delete;
  Sha1& operator=(const Sha1&) = delete;
  uint64_t first_eight_bytes(std::string_view text);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace athanor::corpus::dedup
