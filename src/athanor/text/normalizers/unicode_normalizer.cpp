// NFC, NFD, NFKC, NFKD, Lowercase, StripAccents.
#include <functional>

#include "athanor/text/normalizers/normalizer.h"
#include "athanor/text/unicode.h"
#include "athanor/text/unicode/normal_form.h"

namespace athanor::text::normalizers {
namespace {

class FunctionNormalizer final : public Normalizer {
 public:
  explicit FunctionNormalizer(std::function<void(NormalizedText&)> apply) : apply_(std::move(apply)) {}
  void apply(NormalizedText& text) const override { apply_(text); }

 private:
  std::function<void(NormalizedText&)> apply_;
};

}  // namespace

void to_lowercase(NormalizedText& text) {
  Rewriter rewriter(text);
  std::string lower;
  while (!rewriter.done()) {
    const CodePoint c = decode_utf8(rewriter.rest(), 0);
    const uint32_t to = c.value == kInvalidByte ? c.value : lowercase_of(c.value);
    if (to == c.value) {
      rewriter.keep(c.size);
      continue;
    }
    lower.clear();
    append_utf8(lower, to);
    rewriter.put(lower, 0);
    if (c.value == 0x130) rewriter.put("\u0307", 1);  // the one character whose lower case is two
  }
  rewriter.finish();
}

void strip_marks(bool (*is_stripped)(uint32_t), NormalizedText& text) {
  Rewriter rewriter(text);
  while (!rewriter.done()) {
    const CodePoint c = decode_utf8(rewriter.rest(), 0);
    if (c.value != kInvalidByte && is_stripped(c.value))
      rewriter.drop(c.size);
    else
      rewriter.keep(c.size);
  }
  rewriter.finish();
}

std::unique_ptr<Normalizer> parse_unicode_normalizer(const JsonNode& node) {
  const std::string type = node.at("type").text();
  const auto form = [](unicode::NormalForm f) {
    return std::make_unique<FunctionNormalizer>(
        [f](NormalizedText& text) { unicode::to_normal_form(f, text); });
  };
  if (type == "NFC") return form(unicode::NormalForm::nfc);
  if (type == "NFD") return form(unicode::NormalForm::nfd);
  if (type == "NFKC") return form(unicode::NormalForm::nfkc);
  if (type == "NFKD") return form(unicode::NormalForm::nfkd);
  if (type == "Lowercase") return std::make_unique<FunctionNormalizer>(to_lowercase);
  if (type == "StripAccents")
    return std::make_unique<FunctionNormalizer>(
        [](NormalizedText& text) { strip_marks(unicode::is_mark_in_9, text); });
  return nullptr;
}

}  // namespace athanor::text::normalizers
