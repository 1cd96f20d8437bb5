// Text behind a prompt, piece by piece: together what all tokens decode to at once, at a constant cost per token.
#include "athanor/text/decoders/stream_decoder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "athanor/text/trainers/trainer.h"
#include "athanor/text/unicode.h"
#include "text/dice.h"

namespace athanor::tests::stream_decoder_test {
namespace {

using Json = nlohmann::json;

std::shared_ptr<const Tokenizer> words(const Json& decoder, const std::vector<const char*>& tokens) {
  Json vocab = {{"<unk>", 0}};
  for (const char* token : tokens) vocab[token] = vocab.size();
  return Tokenizer::parse(
      Json{{"decoder", decoder}, {"model", {{"type", "WordLevel"}, {"unk_token", "<unk>"}, {"vocab", vocab}}}}
          .dump(),
      "t");
}

std::string text_behind(const Tokenizer& tokenizer, const std::vector<const char*>& prompt,
                        const std::vector<const char*>& next) {
  std::vector<int32_t> ids;
  for (const char* token : prompt) ids.push_back(*tokenizer.id_of(token));
  StreamDecoder decoder(tokenizer, ids);
  std::string text;
  for (const char* token : next) text += decoder.add(*tokenizer.id_of(token));
  return text + decoder.finish();
}

TEST(StreamDecoder, KeepsTheSpaceBehindThePrompt) {
  const Json metaspace = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}};
  const Json stripped = Json::parse(R"({"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})");
  for (const Json& decoder : {metaspace, stripped}) {
    const auto tokenizer = words(decoder, {"\u2581the", "\u2581vase", "s", "\u2581"});
    EXPECT_EQ(text_behind(*tokenizer, {"\u2581the"}, {"\u2581vase", "s"}), " vases");
    EXPECT_EQ(text_behind(*tokenizer, {"\u2581the", "\u2581vase"}, {"s"}), "s");
    EXPECT_EQ(text_behind(*tokenizer, {}, {"\u2581vase", "\u2581vase"}), "vase vase");
    EXPECT_EQ(text_behind(*tokenizer, {"\u2581the"}, {"\u2581", "\u2581", "s"}), "  s");
  }
  const auto pieces =
      words({{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", false}}, {"the", "vase", "##s", "."});
  EXPECT_EQ(text_behind(*pieces, {"the"}, {"vase", "##s"}), " vases");
  EXPECT_EQ(text_behind(*pieces, {"the", "vase"}, {"##s"}), "s");
  EXPECT_EQ(text_behind(*pieces, {}, {"vase", "vase"}), "vase vase");
  const auto suffixes =
      words({{"type", "BPEDecoder"}, {"suffix", "</w>"}}, {"the</w>", "vase</w>", "va", "se</w>"});
  EXPECT_EQ(text_behind(*suffixes, {"the</w>"}, {"va", "se</w>"}), " vase");
  const auto plain = words(nullptr, {"the", "vase"});
  EXPECT_EQ(text_behind(*plain, {"the"}, {"vase"}), " vase");
}

TEST(StreamDecoder, WaitsForWholeCharacters) {
  const auto tokenizer = words({{"type", "ByteFallback"}}, {"a", "<0xE4>", "<0xBD>", "<0xA0>", "<0xFF>"});
  StreamDecoder decoder(*tokenizer, std::vector<int32_t>{1});
  EXPECT_EQ(decoder.add(2), "");
  EXPECT_EQ(decoder.add(3), "");
  EXPECT_EQ(decoder.add(4), "\u4F60");
  EXPECT_EQ(decoder.add(2), "");
  EXPECT_EQ(decoder.finish(), "\xE4");
}

TEST(StreamDecoder, AllPiecesAreTheText) {
  TokenizerTrainer trainer({.vocab_size = 300});
  trainer.add("the cat sat on the mat \u4F60\u597D the end of it");
  const auto tokenizer = Tokenizer::parse(trainer.finish(), "t");
  const auto size = static_cast<uint64_t>(tokenizer->vocab_size());
  Dice dice(3);
  std::vector<int32_t> prompt, next, all;
  for (int i = 0; i < 40; ++i) prompt.push_back(static_cast<int32_t>(dice.below(size)));
  for (int i = 0; i < 2000; ++i) next.push_back(static_cast<int32_t>(dice.below(size)));
  StreamDecoder decoder(*tokenizer, prompt);
  std::string text;
  for (const int32_t id : next) text += decoder.add(id);
  text += decoder.finish();
  all = prompt;
  all.insert(all.end(), next.begin(), next.end());
  EXPECT_EQ(tokenizer->decode(prompt) + text, tokenizer->decode(all));
}

}  // namespace
}  // namespace athanor::tests::stream_decoder_test
