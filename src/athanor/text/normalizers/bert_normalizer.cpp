// BertNormalizer: drops control characters, sets ideographs apart, strips accents, lowers case.
#include <string>

#include "athanor/text/normalizers/normalizer.h"
#include "athanor/text/unicode.h"
#include "athanor/text/unicode/normal_form.h"

namespace athanor::text::normalizers {
namespace {

struct BertOptions {
  bool clean_text, handle_chinese_chars, strip_accents, lowercase;
};

class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(BertOptions options) : options_(options) {}

  void apply(NormalizedText& text) const override {
    Rewriter rewriter(text);
    while (!rewriter.done()) rewrite_next(rewriter);
    rewriter.finish();
    if (options_.strip_accents) {
      unicode::to_normal_form(unicode::NormalForm::nfd, text);
      strip_marks(is_nonspacing_mark_of_bert, text);
    }
    if (options_.lowercase) to_lowercase(text);
  }

 private:
  void rewrite_next(Rewriter& rewriter) const {
    const CodePoint next = decode_utf8(rewriter.rest(), 0);
    const uint32_t c = next.value;
    if (options_.clean_text && (c == 0 || c == 0xFFFD || is_control_of_bert(c)))
      return rewriter.drop(next.size);
    if (options_.clean_text && is_space(c)) return rewriter.put(" ", 0);
    if (!options_.handle_chinese_chars || !is_chinese(c)) return rewriter.keep(next.size);
    const std::string ideograph(rewriter.rest().substr(0, next.size));
    rewriter.put(" ", 0);
    rewriter.put(ideograph, 1);
    rewriter.put(" ", 1);
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
