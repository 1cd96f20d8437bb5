#include "athanor/documents/decompress.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/documents/compressed_input.h"

namespace athanor::documents {
namespace {

class GzipSource : public ByteSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> source, const std::string& name) : input_(std::move(source), name) {
    constexpr int kGzipOnly = 15 + 16;
    check(inflateInit2(&stream_, kGzipOnly) == Z_OK, "'{}': zlib does not start", name);
  }
  ~GzipSource() override { inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  size_t read(char* out, size_t max_bytes) override {
    max_bytes = std::min(max_bytes, kSourceChunkBytes);
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(max_bytes);
    return fault_last_.read([&] { inflate_some(max_bytes); }, [&] { return max_bytes - stream_.avail_out; });
  }
  uint64_t raw_bytes() const override { return input_.raw_bytes(); }

 private:
  enum class State { inside, between };

  void inflate_some(size_t max_bytes) {
    while (stream_.avail_out == max_bytes) {
      if (state_ == State::between && !next_member()) return;
      check_source(input_.refill(), "truncated gzip", "'{}': ends in the middle of its gzip data",
                   input_.name());
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input_.data()));
      stream_.avail_in = static_cast<uInt>(input_.size());
      const int code = inflate(&stream_, Z_NO_FLUSH);
      input_.consume(input_.size() - stream_.avail_in);
      check_source(code == Z_OK || code == Z_BUF_ERROR || code == Z_STREAM_END, "corrupt gzip",
                   "'{}': corrupt gzip data at byte {}: {}", input_.name(), input_.position(),
                   stream_.msg != nullptr ? stream_.msg : "no reason given");
      if (code != Z_STREAM_END) continue;
      inflateReset(&stream_);
      state_ = State::between;
    }
  }

  // Past padding to the next member; false at the end. Tapes and block devices pad with zeros.
  bool next_member() {
    while (input_.refill()) {
      const char* const data = input_.data();
      const char* const member = std::find_if(data, data + input_.size(), [](char c) { return c != 0; });
      const auto zeros = static_cast<size_t>(member - data);
      const bool found = zeros < input_.size();
      input_.consume(zeros);
      if (!found) continue;
      check_source(*member == '\x1f', "corrupt gzip",
                   "'{}': {} is neither another gzip member nor padding, at byte {}", input_.name(),
                   "what follows the gzip data", input_.position());
      state_ = State::inside;
      return true;
    }
    return false;
  }

  CompressedInput input_;
  z_stream stream_{};
  State state_ = State::inside;
  FaultLast fault_last_;
};

class ZstdSource : public ByteSource {
 public:
  ZstdSource(std::unique_ptr<ByteSource> source, const std::string& name, uint64_t max_window_bytes)
      : input_(std::move(source), name), max_window_bytes_(max_window_bytes), stream_(ZSTD_createDStream()) {
    check(stream_ != nullptr, "'{}': zstd does not start", name);
    const int log = static_cast<int>(std::bit_width(max_window_bytes)) - 1;
    check(ZSTD_isError(ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, log)) == 0,
          "'{}': zstd takes no windows of {} bytes", name, max_window_bytes);
  }
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;

  size_t read(char* out, size_t max_bytes) override {
    ZSTD_outBuffer output{out, max_bytes, 0};
    while (output.pos == 0) {
      // A full output buffer may hide more bytes that need no further input.
      if (!maybe_pending_ && !input_.refill()) {
        check_source(between_frames_, "truncated zstd", "'{}': ends in the middle of its zstd data",
                     input_.name());
        return 0;
      }
      // A block at a time: a faulty one takes nothing of those before it along.
      ZSTD_inBuffer input{input_.data(), std::min(input_.size(), wanted_bytes_), 0};
      const size_t code = ZSTD_decompressStream(stream_, &output, &input);
      if (ZSTD_isError(code) != 0) refuse(code);
      input_.consume(input.pos);
      between_frames_ = code == 0;
      wanted_bytes_ = between_frames_ ? kFrameBeginBytes : code;
      any_frame_ |= between_frames_;
      maybe_pending_ = !between_frames_ && output.pos == output.size;
    }
    return output.pos;
  }
  uint64_t raw_bytes() const override { return input_.raw_bytes(); }

 private:
  [[noreturn]] void refuse(size_t code) const {
    const std::string& name = input_.name();
    switch (ZSTD_getErrorCode(code)) {
      case ZSTD_error_frameParameter_windowTooLarge:
        throw BrokenSource(
            "unsupported zstd",
            fmt::format("'{}': the zstd frame at byte {} wants a window above {}, expected at most that",
                        name, input_.position(), human_bytes(static_cast<double>(max_window_bytes_))),
            "compress it again with zstd --long=31 or less");
      case ZSTD_error_memory_allocation:
        throw BrokenSource(
            "unsupported zstd",
            fmt::format("'{}': there is no memory for the window of the zstd frame at byte {} (up to {})",
                        name, input_.position(), human_bytes(static_cast<double>(max_window_bytes_))));
      case ZSTD_error_dictionary_wrong:
        throw BrokenSource(
            "unsupported zstd",
            fmt::format("'{}': the zstd frame at byte {} was compressed with a dictionary, which is not in "
                        "the file",
                        name, input_.position()),
            "decompress it with that dictionary first");
      case ZSTD_error_prefix_unknown:
        if (any_frame_ && between_frames_)
          fail_source("corrupt zstd", "'{}': what follows the zstd data is no other zstd frame, at byte {}",
                      name, input_.position());
        break;
      default:
        break;
    }
    fail_source("corrupt zstd", "'{}': corrupt zstd data at byte {}: {}", name, input_.position(),
                ZSTD_getErrorName(code));
  }

  static constexpr size_t kFrameBeginBytes = 5;  // what the decoder wants first

  CompressedInput input_;
  uint64_t max_window_bytes_;
  ZSTD_DStream* stream_;
  size_t wanted_bytes_ = kFrameBeginBytes;
  bool between_frames_ = false, any_frame_ = false, maybe_pending_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> read_gzip(std::unique_ptr<ByteSource> source, const std::string& name) {
  return std::make_unique<GzipSource>(std::move(source), name);
}

std::unique_ptr<ByteSource> read_zstd(std::unique_ptr<ByteSource> source, const std::string& name,
                                      uint64_t max_window_bytes) {
  return std::make_unique<ZstdSource>(std::move(source), name, max_window_bytes);
}

}  // namespace athanor::documents
