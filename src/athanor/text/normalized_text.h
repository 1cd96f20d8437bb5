// A text that is being rewritten and knows where each of its bytes came from: normalizers and pre-tokenizers change text,
// and offsets of tokens are asked for in the text as it was given.
//
//   NormalizedText text({.text = "Ab", .at_start = true, .traced = true});
//   Rewriter rewriter(text);
//   rewriter.put("a", 0);         // instead of the next character
//   rewriter.keep(1);             // the next byte as it is
//   rewriter.finish();            // text.text() is "ab"
//   const TextRange origin = text.piece(true).range(0, 2);   // {0, 2}
//
// What a byte comes from follows the rules of Hugging Face's tokenizers, so that offsets are equal to theirs: a character
// that was put in has the origin of the one before it, a character that takes the place of several has the origin of the
// first. An untraced text keeps no origins and costs what its bytes cost. Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::text {

struct TextRange {  // bytes of the input, which is shorter than 4 GiB where ranges are asked for
  uint32_t begin = 0, end = 0;
  bool operator==(const TextRange&) const = default;
};

// A part of a text on its way to the model.
struct Piece {
  std::string_view text;
  bool at_start = false;               // it is at the start of the input
  bool traced = false;                 // ranges will be asked for
  size_t begin = 0;                    // without origins: where it begins in the input
  const TextRange* origins = nullptr;  // of each byte; null: the text is the input's own

  Piece part(size_t from, size_t to) const {
    return {text.substr(from, to - from), at_start && from == 0, traced, begin + from,
            origins == nullptr ? nullptr : origins + from};
  }
  // Where the bytes [from, to) came from; of an empty stretch an empty range.
  TextRange range(size_t from, size_t to) const;
};

class NormalizedText {
 public:
  explicit NormalizedText(Piece piece);

  const std::string& text() const { return text_; }
  Piece piece(bool at_start) const;  // the whole text; valid until it changes

 private:
  friend class Rewriter;
  std::string text_;
  bool traced_;
  size_t begin_;
  std::vector<TextRange> origins_;  // by byte of text_; empty where untraced
};

// The piece with a prefix, which has the origin of the character that it stands before. An empty piece gets none.
NormalizedText with_prefix(std::string_view prefix, Piece piece);

// Reads a text from left to right and writes what takes its place.
class Rewriter {
 public:
  explicit Rewriter(NormalizedText& text);
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;

  std::string_view rest() const { return rest_; }  // what was not read yet
  bool done() const { return rest_.empty(); }
  void keep(size_t bytes);
  void drop(size_t bytes);
  // One character: change 0 takes the place of the next one, -n of the next 1 + n, and 1 is put in.
  void put(std::string_view character, int change);
  void put_all(std::string_view characters);  // each put in
  void finish();                              // the text is now what was written; the rest is kept

 private:
  void write(std::string_view bytes, TextRange origin);
  size_t next_size() const;

  NormalizedText& target_;
  std::string_view rest_;
  size_t read_ = 0;
  std::string out_;
  std::vector<TextRange> origins_;
};

}  // namespace athanor::text
