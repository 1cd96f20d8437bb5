// What the fuzz targets of the readers share: how an input says which options it wants, and what must hold for all that
// comes out of a reader.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "athanor/base/error.h"
#include "athanor/documents/byte_source.h"
#include "athanor/documents/json_syntax.h"
#include "athanor/documents/record.h"
#include "athanor/documents/text_documents.h"
#include "support/memory_source.h"

namespace athanor::fuzz {

// A few bytes can unpack to gigabytes; the search should not spend its time on that.
class FirstMebibyte : public ByteSource {
 public:
  explicit FirstMebibyte(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}
  size_t read(char* out, size_t max_bytes) override {
    const size_t got =
        left_bytes_ == 0 ? 0 : source_->read(out, std::min({max_bytes, left_bytes_, step_bytes_}));
    left_bytes_ -= got;
    return got;
  }
  uint64_t raw_bytes() const override { return source_->raw_bytes(); }
  void read_in_steps_of(size_t step_bytes) { step_bytes_ = step_bytes; }

 private:
  std::unique_ptr<ByteSource> source_;
  size_t left_bytes_ = size_t{1} << 20, step_bytes_ = left_bytes_;
};

// The first byte of an input: how the bytes behind it are stored and read.
class Input {
 public:
  Input(const uint8_t* data, size_t size)
      : choice_(size > 0 ? data[0] : 0),
        bytes_(reinterpret_cast<const char*>(data) + (size > 0 ? 1 : 0), size > 0 ? size - 1 : 0) {}

  std::unique_ptr<HeadSource> source() const {
    constexpr uint64_t kSmallWindow = uint64_t{8} << 20;
    auto source = std::make_unique<FirstMebibyte>(decompress(std::make_unique<tests::MemorySource>(bytes_),
                                                             static_cast<SourceCompression>(choice_ % 5),
                                                             "fuzz", kSmallWindow));
    if (choice_ / 5 % 2 == 1) source->read_in_steps_of(1 + choice_ % 7);
    return std::make_unique<HeadSource>(std::move(source));
  }

  // Half of the inputs tell broken records, the others stop at the first.
  RecordOptions options() {
    RecordOptions options;
    options.with_metadata = true;
    constexpr const char* kKeys[] = {"text", "a.text", "{text}{{{a.text}"};
    options.text_key = kKeys[choice_ / 20 % 3];
    if (choice_ / 60 % 2 == 1) options.max_bytes = 40;
    if (choice_ / 10 % 2 == 1)
      options.refused = [this](const RecordPlace& place, const Refusal& why) {
        take_line(place.line);
        if (why.kind.empty() || why.detail.empty()) std::abort();
      };
    return options;
  }

  // Text and metadata must be UTF-8, the metadata an object on one line, and the line must not fall.
  void take(std::string_view text, const RecordPlace& place) {
    take_line(place.line);
    try {
      check_utf8(text, "text");
      check_utf8(place.id, "id");
    } catch (const Error&) {
      std::abort();
    }
    if (place.metadata.find('\n') != std::string::npos) std::abort();
    if (place.metadata.size() < size_t{1} << 16 && json_fault(place.metadata)) std::abort();
  }

 private:
  void take_line(int64_t line) {
    if (line < last_line_) std::abort();
    last_line_ = line;
  }

  uint8_t choice_;
  std::string_view bytes_;
  int64_t last_line_ = 0;
};

// Whatever is wrong with the input is an Error.
template <typename Read>
int run(const Read& read) {
  try {
    read();
  } catch (const Error&) {
    return 0;
  }
  return 0;
}

}  // namespace athanor::fuzz
