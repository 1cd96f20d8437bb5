#include <algorithm>
#include <array>

#include "athanor/corpus/heuristics/char_kinds.h"
#include "athanor/corpus/heuristics/comments.h"
#include "athanor/corpus/heuristics/family.h"
#include "athanor/corpus/heuristics/html_text.h"
#include "athanor/corpus/heuristics/phrases.h"
#include "athanor/text/unicode.h"

namespace athanor::corpus::heuristics {
namespace {

constexpr size_t kCodeHeaderChars = 100;
constexpr uint64_t kCodeVisibleChars = 100;

// The published rule of at least 2 characters per token needs a tokenizer: heuristics.cpp has it.
constexpr auto kCode = std::to_array<Measure>({
    {"code.python_comments",
     "characters of comments and of strings that are statements / characters; of files whose id or source "
     "ends in .py",
     0.001, 0.85},
    {"code.comments",
     "characters of comments / characters; of files in other languages that the ending of the id or source "
     "names",
     0.01, 0.85},
    {"code.lines", "newlines + 1", 5, 20'000},
    {"code.letters", "alphabetic characters / characters", 0.25},
    {"code.html_visible",
     "characters outside of tags, scripts and styles / characters, 0 if there are fewer than 100; of files "
     "whose id or "
     "source ends in .html or .htm",
     0.2},
    {"code.xml_header", "1 if <?xml version= stands in the first 100 characters, else 0", kNoLeast, 0},
});

double html_visible_share(const TextView& view) {
  const uint64_t visible = visible_chars(view.text());
  if (visible < kCodeVisibleChars) return 0;
  return ratio(static_cast<double>(visible), view.chars());
}

bool is_html(std::string_view name) {
  const std::string ending = name_ending(name);
  return ending == "html" || ending == "htm" || ending == "xhtml";
}

bool has_xml_header(std::string_view text) {
  size_t end = 0;
  for (size_t chars = 0; chars < kCodeHeaderChars && end < text.size(); ++chars)
    end += text::decode_utf8(text, end).size;
  return contains(text.substr(0, end), "<?xml version=");
}

void measure_code(Document& document, TextView& view, std::span<double> values) {
  const std::string_view text = view.text();
  const auto chars = static_cast<double>(view.chars());
  CommentSyntax syntax = comment_syntax_of(document.id);
  if (syntax == CommentSyntax::kUnknown) syntax = comment_syntax_of(document.source);
  const bool python = syntax == CommentSyntax::kPython;
  const double comments = syntax == CommentSyntax::kUnknown
                              ? NAN
                              : ratio(static_cast<double>(comment_chars(text, syntax)), chars);
  uint64_t letters = 0;
  for (size_t at = 0; at < text.size();) {
    const text::CodePoint c = text::decode_utf8(text, at);
    letters += is_alphabetic(c.value);
    at += c.size;
  }
  values[0] = python ? comments : NAN;
  values[1] = python ? NAN : comments;
  values[2] = static_cast<double>(std::count(text.begin(), text.end(), '\n') + 1);
  values[3] = ratio(static_cast<double>(letters), chars);
  values[4] = is_html(document.id) || is_html(document.source) ? html_visible_share(view) : NAN;
  values[5] = has_xml_header(text) ? 1 : 0;
}

}  // namespace

Family code() {
  return {kCode, measure_code};
}

}  // namespace athanor::corpus::heuristics
