#include <bzlib.h>
#include <lzma.h>

#include <algorithm>

#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/documents/compressed_input.h"
#include "athanor/documents/decompress.h"

namespace athanor::documents {
namespace {

class XzSource : public ByteSource {
 public:
  XzSource(std::unique_ptr<ByteSource> source, const std::string& name, uint64_t max_window_bytes)
      : input_(std::move(source), name), max_window_bytes_(max_window_bytes) {
    start();
  }
  ~XzSource() override { lzma_end(&stream_); }
  XzSource(const XzSource&) = delete;
  XzSource& operator=(const XzSource&) = delete;

  size_t read(char* out, size_t max_bytes) override {
    stream_.next_out = reinterpret_cast<uint8_t*>(out);
    stream_.avail_out = max_bytes;
    return fault_last_.read([&] { decode_some(max_bytes); }, [&] { return max_bytes - stream_.avail_out; });
  }
  uint64_t raw_bytes() const override { return input_.raw_bytes(); }

 private:
  void decode_some(size_t max_bytes) {
    while (stream_.avail_out == max_bytes) {
      if (between_streams_ && !next_stream()) return;
      const bool more = input_.refill();
      stream_.next_in = reinterpret_cast<const uint8_t*>(input_.data());
      stream_.avail_in = input_.size();
      const lzma_ret code = lzma_code(&stream_, more ? LZMA_RUN : LZMA_FINISH);
      input_.consume(input_.size() - stream_.avail_in);
      between_streams_ = code == LZMA_STREAM_END;
      if (code != LZMA_OK && code != LZMA_STREAM_END) refuse(code);
    }
  }

  void start() {
    // The dictionary is nearly all of what a decoder needs.
    constexpr uint64_t kBesideTheDictionary = uint64_t{1} << 20;
    check(lzma_stream_decoder(&stream_, max_window_bytes_ + kBesideTheDictionary, 0) == LZMA_OK,
          "'{}': liblzma does not start", input_.name());
  }

  // Past padding to the next stream; false at the end.
  bool next_stream() {
    while (input_.refill()) {
      if (*input_.data() != '\0') {
        check_source(*input_.data() == '\xfd', "corrupt xz",
                     "'{}': what follows the xz data is no other xz stream, at byte {}", input_.name(),
                     input_.position());
        start();
        between_streams_ = false;
        return true;
      }
      input_.consume(1);
    }
    return false;
  }

  [[noreturn]] void refuse(lzma_ret code) const {
    const std::string& name = input_.name();
    check_source(code != LZMA_BUF_ERROR, "truncated xz", "'{}': ends in the middle of its xz data", name);
    check_source(code != LZMA_MEMLIMIT_ERROR, "unsupported xz",
                 "'{}': the xz data want {} of memory, expected at most {}", name,
                 human_bytes(static_cast<double>(lzma_memusage(&stream_))),
                 human_bytes(static_cast<double>(max_window_bytes_)));
    check_source(code != LZMA_MEM_ERROR, "unsupported xz",
                 "'{}': there is no memory for the dictionary of the xz data", name);
    check_source(code != LZMA_OPTIONS_ERROR, "unsupported xz",
                 "'{}': the xz data use a filter that this program does not know", name);
    fail_source("corrupt xz", "'{}': corrupt xz data before byte {}", name, input_.position());
  }

  CompressedInput input_;
  uint64_t max_window_bytes_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool between_streams_ = false;
  FaultLast fault_last_;
};

class Bzip2Source : public ByteSource {
 public:
  Bzip2Source(std::unique_ptr<ByteSource> source, const std::string& name) : input_(std::move(source), name) {
    start();
  }
  ~Bzip2Source() override { BZ2_bzDecompressEnd(&stream_); }
  Bzip2Source(const Bzip2Source&) = delete;
  Bzip2Source& operator=(const Bzip2Source&) = delete;

  size_t read(char* out, size_t max_bytes) override {
    max_bytes = std::min(max_bytes, kSourceChunkBytes);
    stream_.next_out = out;
    stream_.avail_out = static_cast<unsigned>(max_bytes);
    return fault_last_.read([&] { decode_some(max_bytes); }, [&] { return max_bytes - stream_.avail_out; });
  }
  uint64_t raw_bytes() const override { return input_.raw_bytes(); }

 private:
  void decode_some(size_t max_bytes) {
    while (stream_.avail_out == max_bytes) {
      if (!input_.refill()) {
        check_source(between_streams_, "truncated bzip2", "'{}': ends in the middle of its bzip2 data",
                     input_.name());
        return;
      }
      stream_.next_in = const_cast<char*>(input_.data());
      stream_.avail_in = static_cast<unsigned>(input_.size());
      const int code = BZ2_bzDecompress(&stream_);
      input_.consume(input_.size() - stream_.avail_in);
      check_source(code != BZ_DATA_ERROR_MAGIC || !any_stream_, "corrupt bzip2",
                   "'{}': what follows the bzip2 data is no other bzip2 stream, before byte {}",
                   input_.name(), input_.position());
      check_source(code == BZ_OK || code == BZ_STREAM_END, "corrupt bzip2",
                   "'{}': corrupt bzip2 data before byte {}", input_.name(), input_.position());
      between_streams_ = code == BZ_STREAM_END;
      if (!between_streams_) continue;
      any_stream_ = true;
      restart();
    }
  }

  void start() {
    check(BZ2_bzDecompressInit(&stream_, 0, 0) == BZ_OK, "'{}': libbz2 does not start", input_.name());
  }
  void restart() {
    char* const out = stream_.next_out;
    const unsigned left = stream_.avail_out;
    BZ2_bzDecompressEnd(&stream_);
    stream_ = {};
    start();
    stream_.next_out = out;
    stream_.avail_out = left;
  }

  CompressedInput input_;
  bz_stream stream_{};
  bool between_streams_ = false, any_stream_ = false;
  FaultLast fault_last_;
};

}  // namespace

std::unique_ptr<ByteSource> read_xz(std::unique_ptr<ByteSource> source, const std::string& name,
                                    uint64_t max_window_bytes) {
  return std::make_unique<XzSource>(std::move(source), name, max_window_bytes);
}

std::unique_ptr<ByteSource> read_bzip2(std::unique_ptr<ByteSource> source, const std::string& name) {
  return std::make_unique<Bzip2Source>(std::move(source), name);
}

}  // namespace athanor::documents
