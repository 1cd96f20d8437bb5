#include "standard_input.h"

#include <unistd.h>

#include <cerrno>

#include "athanor/base/file.h"

namespace athanor::apps {
namespace {

class StandardInput : public ByteSource {
 public:
  size_t read(char* out, size_t max_bytes) override {
    while (true) {
      const ssize_t got = ::read(STDIN_FILENO, out, max_bytes);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw_io_error("read", "standard input", errno);
      raw_bytes_ += static_cast<uint64_t>(got);
      return static_cast<size_t>(got);
    }
  }
  uint64_t raw_bytes() const override { return raw_bytes_; }

 private:
  uint64_t raw_bytes_ = 0;
};

}  // namespace

std::unique_ptr<ByteSource> open_standard_input() {
  return std::make_unique<StandardInput>();
}

}  // namespace athanor::apps
