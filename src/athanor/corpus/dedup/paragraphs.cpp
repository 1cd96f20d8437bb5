#include "athanor/corpus/dedup/paragraphs.h"

#include "athanor/corpus/dedup/key_methods.h"

namespace athanor::corpus::dedup {
namespace {

class ParagraphKeys final : public KeyMethod {
 public:
  explicit ParagraphKeys(const DedupOptions& options)
      : min_bytes_(options.min_length > 0 ? options.min_length : kMinParagraphBytes) {}
  bool cuts_spans() const override { return true; }
  void keys(const Document& document, std::vector<SpanKey>& out) const override {
    checked_size(document.text);
    out.clear();
    for (const TextRange& line : paragraphs(document.text)) {
      const TextRange inner = trimmed(document.text, line);
      if (inner.size() >= min_bytes_)
        out.push_back({hash_key(inner.of(document.text)), line.begin, line.end});
    }
  }

 private:
  int64_t min_bytes_;
};

}  // namespace

std::vector<TextRange> paragraphs(std::string_view text) {
  std::vector<TextRange> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t feed = text.find('\n', begin);
    const size_t end = feed == std::string_view::npos ? text.size() : feed + 1;
    lines.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    begin = end;
  }
  return lines;
}

std::unique_ptr<KeyMethod> make_paragraph_keys(const DedupOptions& options) {
  return std::make_unique<ParagraphKeys>(options);
}

}  // namespace athanor::corpus::dedup
