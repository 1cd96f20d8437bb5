#include "athanor/text/pre_tokenizers/pattern.h"

#include "athanor/base/error.h"
#include "athanor/text/unicode.h"

namespace athanor::text::pre_tokenizers {

void Pattern::for_each_match(std::string_view text, const std::function<void(size_t, size_t)>& match) const {
  if (const Regex* const regex = std::get_if<Regex>(&what_)) return regex->for_each_match(text, match);
  const std::string& literal = std::get<std::string>(what_);
  if (literal.empty()) {  // stands between any two characters, as an empty expression does
    for (size_t at = 0; at < text.size(); at += decode_utf8(text, at).size) match(at, at);
    return;
  }
  for (size_t at = text.find(literal); at != std::string_view::npos;
       at = text.find(literal, at + literal.size()))
    match(at, at + literal.size());
}

std::string Pattern::replace_all(std::string_view text, std::string_view with) const {
  std::string out;
  size_t last_end = 0;
  for_each_match(text, [&](size_t begin, size_t end) {
    out.append(text.substr(last_end, begin - last_end)).append(with);
    last_end = end;
  });
  return out.append(text.substr(last_end));
}

void Pattern::replace_all(NormalizedText& text, std::string_view with) const {
  std::vector<std::pair<size_t, size_t>> matches;
  for_each_match(text.text(), [&](size_t begin, size_t end) { matches.emplace_back(begin, end); });
  if (matches.empty()) return;
  Rewriter rewriter(text);
  size_t last_end = 0;
  for (const auto& [begin, end] : matches) {
    rewriter.keep(begin - last_end);
    rewriter.drop(end - begin);
    rewriter.put_all(with);
    last_end = end;
  }
  rewriter.finish();
}

Pattern parse_pattern(const JsonNode& node) {
  if (const auto literal = node.find("String")) return Pattern(literal->text());
  const auto regex = node.find("Regex");
  if (!regex) node.fail("expected {\"Regex\": ...} or {\"String\": ...}");
  try {
    return Pattern(Regex(regex->text()));
  } catch (const Error& error) {
    regex->fail(error.what());
  }
}

}  // namespace athanor::text::pre_tokenizers
