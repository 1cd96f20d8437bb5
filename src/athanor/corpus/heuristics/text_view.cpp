#include "athanor/corpus/heuristics/text_view.h"

#include <limits>

#include "athanor/base/check.h"
#include "athanor/corpus/heuristics/char_kinds.h"
#include "athanor/corpus/heuristics/for_each_piece.h"
#include "athanor/text/unicode.h"

namespace athanor::corpus::heuristics {

TextView::TextView(std::string_view text) : text_(text) {
  base::check(text.size() < std::numeric_limits<uint32_t>::max(),
              "heuristics: a text: got {} bytes, expected less than 4 GiB", text.size());
  chars_ = count_chars(text);
  ascii_ = chars_ == text.size();
}

uint32_t TextView::chars_of(std::string_view part) const {
  return ascii_ ? static_cast<uint32_t>(part.size()) : count_chars(part);
}

Span TextView::span(size_t begin, size_t end) const {
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end - begin),
          chars_of(text_.substr(begin, end - begin))};
}

Word TextView::word(size_t begin, size_t end, uint8_t kinds, bool is_punctuation) const {
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end - begin),
          kinds & kWide ? count_chars(text_.substr(begin, end - begin)) : static_cast<uint32_t>(end - begin),
          (kinds & kLetter) != 0, is_punctuation};
}

const std::vector<Word>& TextView::pieces() {
  if (!has_pieces_) {
    pieces_.reserve(text_.size() / 5 + 1);
    for_each_piece(text_, [this](size_t begin, size_t end, uint8_t kinds) {
      pieces_.push_back(word(begin, end, kinds, false));
    });
    has_pieces_ = true;
  }
  return pieces_;
}

const std::vector<Word>& TextView::words() {
  if (!has_words_) {
    words_.reserve(text_.size() / 5 + 1);
    for_each_piece(text_, [this](size_t begin, size_t end, uint8_t kinds) {
      if (kinds & kPunctuation)
        split_piece(begin, end, kinds);
      else
        words_.push_back(word(begin, end, kinds, false));
    });
    has_words_ = true;
  }
  return words_;
}

// What stands between the marks at both ends holds all letters of the piece, as no mark is a letter.
void TextView::split_piece(size_t begin, size_t end, uint8_t kinds) {
  size_t core = begin;
  while (core < end) {
    const text::CodePoint c = text::decode_utf8(text_, core);
    if (!(kind_of(c.value) & kPunctuation)) break;
    core += c.size;
  }
  size_t core_end = end;
  while (core_end > core) {
    const size_t at = start_of_char_before(text_, core_end);
    if (at < core || !(kind_of(text::decode_utf8(text_, at).value) & kPunctuation)) break;
    core_end = at;
  }
  add_marks(begin, core);
  if (core_end > core) words_.push_back(word(core, core_end, kinds, false));
  add_marks(core_end, end);
}

void TextView::add_marks(size_t begin, size_t end) {
  while (begin < end) {
    const text::CodePoint mark = text::decode_utf8(text_, begin);
    size_t at = begin + mark.size;
    while (at < end && text::decode_utf8(text_, at).value == mark.value) at += mark.size;
    words_.push_back(word(begin, at, kind_of(mark.value), true));
    begin = at;
  }
}

const std::vector<Span>& TextView::lines() {
  if (!has_lines_) {
    for (size_t begin = 0; begin <= text_.size();) {
      const size_t newline = text_.find('\n', begin);
      const size_t end = newline == std::string_view::npos ? text_.size() : newline;
      lines_.push_back(span(begin, end));
      if (!is_blank(text_.substr(begin, end - begin))) filled_lines_.push_back(lines_.back());
      begin = end + 1;
    }
    has_lines_ = true;
  }
  return lines_;
}

const std::vector<Span>& TextView::filled_lines() {
  lines();
  return filled_lines_;
}

size_t line_break_at(std::string_view text, size_t at) {
  const auto byte = static_cast<uint8_t>(text[at]);
  if (byte == '\r') return at + 1 < text.size() && text[at + 1] == '\n' ? 2 : 1;
  if (byte < 128) return (byte >= '\n' && byte <= '\f') || (byte >= 0x1C && byte <= 0x1E) ? 1 : 0;
  if (byte != 0xC2 && byte != 0xE2) return 0;
  const std::string_view rest = text.substr(at);
  if (rest.starts_with("\xC2\x85")) return 2;
  return rest.starts_with("\xE2\x80\xA8") || rest.starts_with("\xE2\x80\xA9") ? 3 : 0;
}

const std::vector<Span>& TextView::broken_lines() {
  if (!has_broken_lines_) {
    size_t begin = 0;
    for (size_t at = 0; at < text_.size();) {
      const auto byte = static_cast<uint8_t>(text_[at]);
      if (byte > 0x1E && byte < 0x80) {  // nearly all
        ++at;
        continue;
      }
      const size_t size = line_break_at(text_, at);
      if (size > 0) {
        broken_lines_.push_back(span(begin, at));
        begin = at + size;
      }
      at += size > 0 ? size : 1;
    }
    if (begin < text_.size()) broken_lines_.push_back(span(begin, text_.size()));
    has_broken_lines_ = true;
  }
  return broken_lines_;
}

const std::vector<Span>& TextView::paragraphs() {
  if (!paragraphs_.empty()) return paragraphs_;
  const std::string_view inner = strip(text_);
  const size_t offset = inner.empty() ? 0 : static_cast<size_t>(inner.data() - text_.data());
  for (size_t begin = 0;;) {
    const size_t gap = inner.find("\n\n", begin);
    if (gap == std::string_view::npos) {
      paragraphs_.push_back(span(offset + begin, offset + inner.size()));
      return paragraphs_;
    }
    paragraphs_.push_back(span(offset + begin, offset + gap));
    begin = inner.find_first_not_of('\n', gap);  // there is one: the text does not end with a space
  }
}

}  // namespace athanor::corpus::heuristics
