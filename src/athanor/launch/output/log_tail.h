// The newest bytes of an endless stream, in memory that does not grow.
//
//   LogTail tail(64 << 10);
//   tail.add(bytes);
//   write_file(tail.text());                       // the oldest first; its first line may be the end of one
//
// Costs a copy of the bytes that stay, however many come. Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::launch::output {

class LogTail {
 public:
  explicit LogTail(size_t size_bytes) : size_bytes_(size_bytes) {}

  void add(std::string_view bytes);
  void clear();
  std::string text() const;
  bool is_cut() const { return num_added_ > bytes_.size(); }  // there was more before it
  bool is_empty() const { return bytes_.empty(); }

 private:
  size_t size_bytes_, next_ = 0;  // next_: the oldest byte, once all are used
  uint64_t num_added_ = 0;
  std::string bytes_;
};

}  // namespace athanor::launch::output
