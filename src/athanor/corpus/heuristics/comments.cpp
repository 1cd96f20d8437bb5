#include "athanor/corpus/heuristics/comments.h"

#include <algorithm>
#include <array>

#include "athanor/corpus/heuristics/char_kinds.h"
#include "athanor/corpus/heuristics/phrases.h"

namespace athanor::corpus::heuristics {
namespace {

constexpr auto kPythonEndings = std::to_array<std::string_view>({"py", "pyi", "pyx"});
constexpr auto kHashEndings = std::to_array<std::string_view>(
    {"sh", "bash", "zsh", "rb", "pl", "pm", "r", "yaml", "yml", "toml", "mk", "cmake", "jl", "tcl"});
constexpr auto kSlashEndings = std::to_array<std::string_view>(
    {"c",  "h",   "cc", "cpp", "cxx", "hpp", "hh",    "cu",    "cuh",  "java", "js",  "jsx",  "mjs",
     "ts", "tsx", "go", "rs",  "cs",  "kt",  "scala", "swift", "dart", "php",  "css", "scss", "proto"});
constexpr auto kPackedEndings = std::to_array<std::string_view>({".gz", ".zst", ".xz", ".bz2"});

bool is_one_of(std::string_view ending, std::span<const std::string_view> endings) {
  return std::find(endings.begin(), endings.end(), ending) != endings.end();
}

class CommentScanner {
 public:
  CommentScanner(std::string_view source, CommentSyntax syntax) : source_(source), syntax_(syntax) {}

  uint64_t chars() {
    while (at_ < source_.size()) step();
    return chars_;
  }

 private:
  bool sees(std::string_view what) const { return source_.substr(at_).starts_with(what); }
  bool is_python() const { return syntax_ == CommentSyntax::kPython; }

  void step() {
    const char c = source_[at_];
    if (begins_line_comment(c)) return skip_comment("\n", syntax_ == CommentSyntax::kSlash ? 2 : 0, 0);
    if (syntax_ == CommentSyntax::kSlash && sees("/*")) return skip_comment("*/", 2, 2);
    if (c == '"' || c == '\'' || (c == '`' && syntax_ == CommentSyntax::kSlash)) return skip_string(c);
    if (c == '(' || c == '[' || c == '{') ++depth_;
    if ((c == ')' || c == ']' || c == '}') && depth_ > 0) --depth_;
    if (c == '\n')
      fresh_line_ = depth_ == 0 && (at_ == 0 || source_[at_ - 1] != '\\');
    else if (c != ' ' && c != '\t' && c != '\r')
      fresh_line_ = false;
    ++at_;
  }

  bool begins_line_comment(char c) const {
    if (syntax_ == CommentSyntax::kSlash) return sees("//");
    if (c != '#') return false;
    return is_python() || at_ == 0 || (kind_of(static_cast<uint8_t>(source_[at_ - 1]) & 0x7F) & kSpace);
  }

  // From here to `end`, or to the end of the source; the marks around it do not count.
  void skip_comment(std::string_view end, size_t open, size_t close) {
    const size_t begin = at_ + open;
    const size_t found = source_.find(end, begin);
    const size_t stop = std::min(found, source_.size());
    chars_ += count_chars(source_.substr(begin, stop - begin));
    at_ = std::min(stop + close, source_.size());
  }

  void skip_string(char quote) {
    const std::string triple(3, quote);
    const bool is_triple = is_python() && sees(triple);
    const bool is_statement = is_python() && fresh_line_;
    const std::string_view end = is_triple ? std::string_view(triple) : std::string_view(triple).substr(0, 1);
    const bool many_lines = is_triple || quote == '`';
    at_ += end.size();
    const size_t begin = at_;
    while (at_ < source_.size() && !sees(end) && (many_lines || source_[at_] != '\n'))
      at_ += source_[at_] == '\\' && at_ + 1 < source_.size() && source_[at_ + 1] != '\n' ? 2 : 1;
    at_ = std::min(at_, source_.size());
    if (is_statement) chars_ += count_chars(source_.substr(begin, at_ - begin));
    if (sees(end)) at_ += end.size();
    fresh_line_ = false;
  }

  std::string_view source_;
  size_t at_ = 0;
  uint64_t chars_ = 0;
  size_t depth_ = 0;        // of brackets
  bool fresh_line_ = true;  // only spaces so far on a line that continues none
  CommentSyntax syntax_;
};

}  // namespace

std::string name_ending(std::string_view name) {
  const size_t slash = name.rfind('/');
  if (slash != std::string_view::npos && slash + 1 < name.size() &&
      name.find_first_not_of("0123456789", slash + 1) == std::string_view::npos)
    name = name.substr(0, slash);
  for (const std::string_view packed : kPackedEndings)
    if (name.ends_with(packed)) name.remove_suffix(packed.size());
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || name.find('/', dot) != std::string_view::npos) return "";
  return lower_ascii(name.substr(dot + 1));
}

CommentSyntax comment_syntax_of(std::string_view name) {
  const std::string ending = name_ending(name);
  if (is_one_of(ending, kPythonEndings)) return CommentSyntax::kPython;
  if (is_one_of(ending, kHashEndings)) return CommentSyntax::kHash;
  return is_one_of(ending, kSlashEndings) ? CommentSyntax::kSlash : CommentSyntax::kUnknown;
}

uint64_t comment_chars(std::string_view source, CommentSyntax syntax) {
  return syntax == CommentSyntax::kUnknown ? 0 : CommentScanner(source, syntax).chars();
}

}  // namespace athanor::corpus::heuristics
