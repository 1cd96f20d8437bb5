// BertNormalizer: drops control characters, sets ideographs apart, strips accents, lowers case.
#include "athanor/text/normalizers/normalizer.h"
#include "athanor/text/unicode.h"

namespace athanor::text::normalizers {
namespace {

struct BertOptions {
  bool clean_text, handle_chinese_chars, strip_accents, lowercase;
};

class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(BertOptions options) : options_(options) {}

  void apply(std::string& text) const override {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const CodePoint c = decode_utf8(text, at);
      append(std::string_view(text).substr(at, c.size), c.value, out);
      at += c.size;
    }
    text = std::move(out);
    if (options_.strip_accents) {
      to_normal_form(NormalForm::nfd, text);
      strip_marks(is_nonspacing_mark, text);
    }
    if (options_.lowercase) to_lowercase(text);
  }

 private:
  void append(std::string_view bytes, uint32_t c, std::string& out) const {
    if (options_.clean_text && (c == 0 || c == 0xFFFD || is_control(c))) return;
    if (options_.clean_text && is_space(c)) return out.push_back(' ');
    const bool apart = options_.handle_chinese_chars && is_chinese(c);
    if (apart) out.push_back(' ');
    out += bytes;
    if (apart) out.push_back(' ');
  }

  BertOptions options_;
};

}  // namespace

std::unique_ptr<Normalizer> parse_bert_normalizer(const JsonNode& node) {
  const bool lowercase = node.boolean("lowercase", true);
  return std::make_unique<BertNormalizer>(BertOptions{node.boolean("clean_text", true),
                                                      node.boolean("handle_chinese_chars", true),
                                                      node.boolean("strip_accents", lowercase), lowercase});
}

}  // namespace athanor::text::normalizers
