// Hashes and checksums.
//   hash64, Hash128   XXH3, for identities inside one build of the program and for checksums of tensors
//   Sha256            for files that leave the machine
//   crc32c            Castagnoli, as TensorBoard's records need it
//
//   Hash128 hash;  hash.update("text");  hash.hex();
//
// Thread rule: functions from any thread, an object from one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::base {

uint64_t hash64(const void* data, size_t size_bytes, uint64_t seed = 0);
uint64_t hash64(std::string_view text, uint64_t seed = 0);

// 128 bits of XXH3, streamed; hex() is 32 lower-case digits.
class Hash128 {
 public:
  Hash128();
  ~Hash128();
  Hash128(const Hash128&) = delete;
  Hash128& operator=(const Hash128&) = delete;
  void update(const void* data, size_t size_bytes);
  void update(std::string_view text) { update(text.data(), text.size()); }
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void update(const void* data, size_t size_bytes);
  void update(std::string_view text) { update(text.data(), text.size()); }
  std::string hex();  // 64 lower-case digits; ends the stream

 private:
  struct State;
  std::unique_ptr<State> state_;
};

uint32_t crc32c(const void* data, size_t size_bytes, uint32_t crc = 0);

}  // namespace athanor::base
