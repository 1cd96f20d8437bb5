// The decompressors behind byte_source.h, each a ByteSource over another.
#pragma once

#include <fmt/core.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "athanor/documents/byte_source.h"

namespace athanor::documents {

template <typename... Args>
[[noreturn]] void fail_source(const char* kind, fmt::format_string<Args...> message, Args&&... args) {
  throw BrokenSource(kind, fmt::format(message, std::forward<Args>(args)...));
}
template <typename... Args>
void check_source(bool condition, const char* kind, fmt::format_string<Args...> message, Args&&... args) {
  if (!condition) [[unlikely]]
    fail_source(kind, message, std::forward<Args>(args)...);
}

// Reads one step after the other until something was read. A step may read bytes and then meet a fault: they come
// first, the fault with the next call.
class FaultLast {
 public:
  // step() reads into the output; read_bytes() says how many it has read.
  template <typename Step, typename ReadBytes>
  size_t read(const Step& step, const ReadBytes& read_bytes) {
    if (fault_) throw BrokenSource(*fault_);
    try {
      step();
    } catch (const BrokenSource& fault) {
      if (read_bytes() == 0) throw;
      fault_ = fault;
    }
    return read_bytes();
  }

 private:
  std::optional<BrokenSource> fault_;
};

std::unique_ptr<ByteSource> read_gzip(std::unique_ptr<ByteSource> source, const std::string& name);
std::unique_ptr<ByteSource> read_zstd(std::unique_ptr<ByteSource> source, const std::string& name,
                                      uint64_t max_window_bytes);
std::unique_ptr<ByteSource> read_xz(std::unique_ptr<ByteSource> source, const std::string& name,
                                    uint64_t max_window_bytes);
std::unique_ptr<ByteSource> read_bzip2(std::unique_ptr<ByteSource> source, const std::string& name);

}  // namespace athanor::documents
