#include "athanor/text/normalized_text.h"

#include <utility>

#include "athanor/base/check.h"
#include "athanor/text/unicode.h"

namespace athanor::text {

TextRange Piece::range(size_t from, size_t to) const {
  if (origins == nullptr || from == to)
    return {static_cast<uint32_t>(begin + from), static_cast<uint32_t>(begin + to)};
  return {origins[from].begin, origins[to - 1].end};
}

NormalizedText::NormalizedText(Piece piece) : text_(piece.text), traced_(piece.traced), begin_(piece.begin) {
  if (!traced_) return;
  check(piece.begin + piece.text.size() < UINT32_MAX,
        "offsets of tokens: a text of {} bytes, expected less than 4 GiB", piece.begin + piece.text.size());
  origins_.reserve(text_.size());
  for (size_t i = 0; i < text_.size(); ++i) origins_.push_back(piece.range(i, i + 1));
}

Piece NormalizedText::piece(bool at_start) const {
  return {text_, at_start, traced_, begin_, traced_ ? origins_.data() : nullptr};
}

NormalizedText with_prefix(std::string_view prefix, Piece piece) {
  NormalizedText text(piece);
  if (piece.text.empty() || prefix.empty()) return text;
  Rewriter rewriter(text);
  const std::string first(piece.text.substr(0, decode_utf8(piece.text, 0).size));
  bool is_first = true;
  for (size_t at = 0; at < prefix.size(); is_first = false) {
    const size_t size = decode_utf8(prefix, at).size;
    rewriter.put(prefix.substr(at, size), is_first ? 0 : 1);
    at += size;
  }
  rewriter.put(first, 1);
  rewriter.finish();
  return text;
}

Rewriter::Rewriter(NormalizedText& text) : target_(text), rest_(text.text_) {
  out_.reserve(rest_.size());
  if (target_.traced_) origins_.reserve(rest_.size());
}

void Rewriter::write(std::string_view bytes, TextRange origin) {
  out_ += bytes;
  if (target_.traced_) origins_.insert(origins_.end(), bytes.size(), origin);
}

size_t Rewriter::next_size() const {
  return rest_.empty() ? 0 : decode_utf8(rest_, 0).size;
}

void Rewriter::keep(size_t bytes) {
  out_ += rest_.substr(0, bytes);
  if (target_.traced_) {
    const auto from = target_.origins_.begin() + static_cast<ptrdiff_t>(read_);
    origins_.insert(origins_.end(), from, from + static_cast<ptrdiff_t>(bytes));
  }
  drop(bytes);
}

void Rewriter::drop(size_t bytes) {
  rest_.remove_prefix(bytes);
  read_ += bytes;
}

void Rewriter::put(std::string_view character, int change) {
  const auto start = static_cast<uint32_t>(target_.begin_);
  TextRange origin{start, start};
  // A change without a character to change stands for one that is put in.
  const size_t source = change > 0 || rest_.empty() ? read_ - (read_ > 0 ? 1 : 0) : read_;
  if (target_.traced_ && (change <= 0 || read_ > 0) && source < target_.origins_.size())
    origin = target_.origins_[source];
  write(character, origin);
  for (; change <= 0; ++change) drop(next_size());
}

void Rewriter::put_all(std::string_view characters) {
  while (!characters.empty()) {
    const size_t size = decode_utf8(characters, 0).size;
    put(characters.substr(0, size), 1);
    characters.remove_prefix(size);
  }
}

void Rewriter::finish() {
  keep(rest_.size());
  target_.text_ = std::move(out_);
  target_.origins_ = std::move(origins_);
}

}  // namespace athanor::text
