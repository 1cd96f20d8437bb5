// NFC, NFD, NFKC, NFKD, Lowercase, StripAccents (ICU).
#include <unicode/normalizer2.h>
#include <unicode/stringoptions.h>
#include <unicode/uchar.h>

#include <functional>

#include "athanor/base/check.h"
#include "athanor/text/normalizers/normalizer.h"
#include "athanor/text/unicode.h"

namespace athanor::text::normalizers {
namespace {

const icu::Normalizer2& normalizer_of(NormalForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* found = nullptr;
  if (form == NormalForm::nfc) found = icu::Normalizer2::getNFCInstance(status);
  if (form == NormalForm::nfd) found = icu::Normalizer2::getNFDInstance(status);
  if (form == NormalForm::nfkc) found = icu::Normalizer2::getNFKCInstance(status);
  if (form == NormalForm::nfkd) found = icu::Normalizer2::getNFKDInstance(status);
  check(U_SUCCESS(status) && found, "unicode: ICU has no normal forms: {}", u_errorName(status));
  return *found;
}

// Calls `rewrite` on the stretches of valid UTF-8 and copies what is between them.
template <typename Rewrite>
void rewrite_valid(std::string& text, Rewrite rewrite) {
  std::string out;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t bad = std::min(find_invalid_utf8(rest), rest.size());
    rewrite(rest.substr(0, bad), out);
    if (bad < rest.size()) out.push_back(rest[bad]);
    rest.remove_prefix(std::min(bad + 1, rest.size()));
  }
  text = std::move(out);
}

class FunctionNormalizer final : public Normalizer {
 public:
  explicit FunctionNormalizer(std::function<void(std::string&)> apply) : apply_(std::move(apply)) {}
  void apply(std::string& text) const override { apply_(text); }

 private:
  std::function<void(std::string&)> apply_;
};

}  // namespace

void to_normal_form(NormalForm form, std::string& text) {
  const icu::Normalizer2& normalizer = normalizer_of(form);
  rewrite_valid(text, [&](std::string_view part, std::string& out) {
    UErrorCode status = U_ZERO_ERROR;
    icu::StringByteSink<std::string> sink(&out);
    const icu::StringPiece piece(part.data(), static_cast<int32_t>(part.size()));
    check(part.size() <= INT32_MAX, "unicode: a text of {} bytes, expected at most 2 GiB", part.size());
    normalizer.normalizeUTF8(0, piece, sink, nullptr, status);
    check(U_SUCCESS(status), "unicode: normal form: {}", u_errorName(status));
  });
}

void to_lowercase(std::string& text) {
  rewrite_valid(text, [](std::string_view part, std::string& out) {
    for (size_t at = 0; at < part.size();) {
      const CodePoint c = decode_utf8(part, at);
      if (c.value == 0x130)
        out += "i\u0307";  // the one character whose lower case is two
      else
        append_utf8(out, static_cast<uint32_t>(u_tolower(static_cast<UChar32>(c.value))));
      at += c.size;
    }
  });
}

void strip_marks(bool (*is_stripped)(uint32_t), std::string& text) {
  rewrite_valid(text, [&](std::string_view part, std::string& out) {
    for (size_t at = 0; at < part.size();) {
      const CodePoint c = decode_utf8(part, at);
      if (!is_stripped(c.value)) out += part.substr(at, c.size);
      at += c.size;
    }
  });
}

std::unique_ptr<Normalizer> parse_unicode_normalizer(const JsonNode& node) {
  const std::string type = node.at("type").text();
  const auto form = [](NormalForm f) {
    return std::make_unique<FunctionNormalizer>([f](std::string& text) { to_normal_form(f, text); });
  };
  if (type == "NFC") return form(NormalForm::nfc);
  if (type == "NFD") return form(NormalForm::nfd);
  if (type == "NFKC") return form(NormalForm::nfkc);
  if (type == "NFKD") return form(NormalForm::nfkd);
  if (type == "Lowercase") return std::make_unique<FunctionNormalizer>(to_lowercase);
  if (type == "StripAccents")
    return std::make_unique<FunctionNormalizer>([](std::string& text) { strip_marks(is_mark, text); });
  return nullptr;
}

}  // namespace athanor::text::normalizers
