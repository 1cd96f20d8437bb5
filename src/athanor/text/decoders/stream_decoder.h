// Streaming decoder: the text of tokens that are generated one by one after a prompt, each piece as soon as it is
// known.
//
//   StreamDecoder decoder(tokenizer, prompt_ids);
//   for (int32_t id : ids) show(decoder.add(id));      // " vase" behind "the", "ase" behind "the v"
//   show(decoder.finish());
//
// A token's text depends on its neighbours: the first token of a text loses its space, ##ing joins the word before it,
// several tokens make one character. So a token is decoded together with a few tokens before it, which keeps the work
// per token constant. All pieces together are the text of prompt and tokens, without the prompt's text. Bytes that may
// become a character wait for the next token. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "athanor/text/tokenizer.h"

namespace athanor::text::decoders {

class StreamDecoder {
 public:
  // `prompt`: the tokens of the prompt, without the tokens that only begin a text (<s>). May be empty.
  StreamDecoder(const Tokenizer& tokenizer, std::span<const int32_t> prompt);
  std::string add(int32_t id);
  std::string finish();

 private:
  void start_after(std::span<const int32_t> context);

  const Tokenizer& tokenizer_;
  std::vector<int32_t> window_;  // the newest tokens: context, then tokens whose text was not returned yet
  std::string shown_;            // the part of the window's text that was returned
  std::string text_;             // the window's text
};

}  // namespace athanor::text::decoders

namespace athanor {
using text::decoders::StreamDecoder;
}  // namespace athanor
