// The text of tokens that come one after the other, behind a prompt, each piece as soon as it is known.
//
//   StreamDecoder decoder(tokenizer, prompt_ids);
//   while (...) show(decoder.add(id));      // " vase" behind "the", "ase" behind "the v"
//   show(decoder.finish());
//
// A decoder looks at neighbours (the first token of a text loses its space, ##ing joins the word before it, several
// tokens make one character), so tokens are decoded together with those before them; a few of these suffice, which
// keeps the work per token constant. All pieces together are the text that the prompt and the tokens decode to, less the
// prompt's. Bytes that may become a character wait for the next token. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "athanor/text/tokenizer.h"

namespace athanor {

class StreamDecoder {
 public:
  // `prompt`: the tokens of the text before, without those that only begin a text. May be empty.
  StreamDecoder(const Tokenizer& tokenizer, std::span<const int32_t> prompt);
  std::string add(int32_t id);
  std::string finish();

 private:
  void start_after(std::span<const int32_t> context);

  const Tokenizer& tokenizer_;
  std::vector<int32_t> window_;  // the newest tokens: context, then those whose text is not out yet
  std::string shown_;            // of the window's text
  std::string text_;             // of the window
};

}  // namespace athanor
