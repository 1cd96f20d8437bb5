// UnicodeScripts: cuts where the script changes, as SentencePiece does. Kana count as Han, so that Japanese words stay whole.
// Spaces and characters without a script belong to the piece before them; at the start of the text they are left out.
#include "athanor/text/pre_tokenizers/pre_tokenizer.h"
#include "athanor/text/unicode.h"
#include "athanor/text/unicode/scripts.h"

namespace athanor::text::pre_tokenizers {
namespace {

constexpr uint32_t kProlongedSound = 0x30FC;  // a common character that lengthens a vowel of kana

unicode::Script joined_script(uint32_t c) {
  if (c == ' ') return unicode::Script::none;
  if (c == kProlongedSound) return unicode::Script::han;
  const unicode::Script script = unicode::script(c);
  const bool is_kana = script == unicode::Script::hiragana || script == unicode::Script::katakana;
  return is_kana ? unicode::Script::han : script;
}

class UnicodeScripts final : public PreTokenizer {
 public:
  void split(Piece piece, const PieceSink& sink) const override {
    unicode::Script current = unicode::Script::none;
    size_t begin = 0;
    for (size_t at = 0; at < piece.text.size();) {
      const CodePoint c = decode_utf8(piece.text, at);
      const unicode::Script script = joined_script(c.value);
      if (script != unicode::Script::none && script != current) {
        if (current != unicode::Script::none) sink(piece.part(begin, at));
        current = script;
        begin = at;
      }
      at += c.size;
    }
    if (current != unicode::Script::none) sink(piece.part(begin, piece.text.size()));
  }
};

}  // namespace

std::unique_ptr<PreTokenizer> make_unicode_scripts() {
  return std::make_unique<UnicodeScripts>();
}

}  // namespace athanor::text::pre_tokenizers
