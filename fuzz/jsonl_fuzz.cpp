// The documents of any bytes, JSON of every layout or plain text: the first byte says how the rest is compressed. Every
// text that comes out must be UTF-8 and its line number must not fall. Whatever is wrong is an Error.
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "athanor/base/error.h"
#include "athanor/documents/json_documents.h"
#include "athanor/documents/text_documents.h"
#include "support/memory_source.h"

namespace {

// A few bytes can unpack to gigabytes; the search should not spend its time on that.
class FirstMebibyte : public athanor::ByteSource {
 public:
  explicit FirstMebibyte(std::unique_ptr<athanor::ByteSource> source) : source_(std::move(source)) {}
  size_t read(char* out, size_t max_bytes) override {
    const size_t got = left_bytes_ == 0 ? 0 : source_->read(out, std::min(max_bytes, left_bytes_));
    left_bytes_ -= got;
    return got;
  }
  uint64_t raw_bytes() const override { return source_->raw_bytes(); }

 private:
  std::unique_ptr<athanor::ByteSource> source_;
  size_t left_bytes_ = size_t{1} << 20;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto compression = static_cast<athanor::SourceCompression>(data[0] % 5);
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr uint64_t kSmallWindow = uint64_t{8} << 20;
  int64_t last_line = 0;
  const auto take = [&](std::string_view text, int64_t line) {
    if (line < last_line) std::abort();
    last_line = line;
    try {
      athanor::check_utf8(text, "text");
    } catch (const athanor::Error&) {
      std::abort();
    }
  };
  try {
    athanor::HeadSource source(std::make_unique<FirstMebibyte>(athanor::decompress(
        std::make_unique<athanor::tests::MemorySource>(bytes), compression, "fuzz", kSmallWindow)));
    const std::string_view head = source.head(athanor::kFormatProbeBytes);
    if (!athanor::foreign_format(head).empty()) return 0;
    const athanor::JsonLayout layout = athanor::recognize_json(head);
    if (layout == athanor::JsonLayout::none)
      athanor::for_each_text_document(source, "fuzz", {"<|endoftext|>"}, take);
    else
      athanor::for_each_json_document(
          source, "fuzz", "text", layout,
          [&](std::string_view text, const athanor::JsonPlace& place) { take(text, place.line); });
  } catch (const athanor::Error&) {
    return 0;
  }
  return 0;
}
