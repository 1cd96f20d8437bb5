// Decoding gives the text back, with added tokens of every kind in it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/text/tokenizer.h"

namespace athanor::tests::decode_test {
namespace {

using Json = nlohmann::json;

// A SentencePiece-like tokenizer of single characters and bytes, as in LLaMA 2 (with Prepend) and Gemma (without).
Json sentence_piece(bool prepends, const Json& added) {
  Json vocab = {{"<unk>", 0}, {"<s>", 1}, {"\u2581", 2}, {"\u2581\u2581", 3}};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    vocab[name] = 4 + byte;
  }
  Json merges = Json::array({"\u2581 \u2581"});
  const Json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
  const Json prepend = {{"type", "Prepend"}, {"prepend", "\u2581"}};
  Json steps = Json::array({{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
                            {{"type", "ByteFallback"}},
                            {{"type", "Fuse"}}});
  if (prepends) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer",
           prepends ? Json{{"type", "Sequence"}, {"normalizers", Json::array({prepend, replace})}} : replace},
          {"decoder", {{"type", "Sequence"}, {"decoders", steps}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", merges}}}};
}

Json byte_level(const Json& added) {
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"model", nullptr}};
}

Json token(int id, const char* content, bool special, bool normalized) {
  return {{"id", id}, {"content", content}, {"special", special}, {"normalized", normalized}};
}

TEST(Decode, GivesTheTextBack) {
  const Json pieces = Json::array({token(1, "<s>", true, false), token(3, "\u2581\u2581", false, false),
                                   token(260, "Athena", false, true), token(261, "<b>", false, false),
                                   token(262, "<|x y|>", true, true), token(263, "two words", false, true)});
  for (const bool prepends : {false, true}) {
    const auto tokenizer = Tokenizer::parse(sentence_piece(prepends, pieces).dump(), "t");
    for (const char* text :
         {"a", " a", "  a", "a ", "if a:\n    b  c", "the kiln of Athena", "the kiln ofAthena",
          "Athena Athena", "Athena", " Athena", "AthenaAthena x", "a<s>", "<b><b>", "say <|x y|> now",
          "x two words y", "two words", "\u4F60 \U0001F600 <s>", ""})
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << prepends;
    // Text behind a token that ends a segment gets the prefix once more, which no decoder takes away: as in Hugging
    // Face's tokenizers.
    EXPECT_EQ(tokenizer->decode(tokenizer->encode("<s>a<s> b")), prepends ? "<s> a<s>  b" : "<s>a<s> b");
    EXPECT_EQ(tokenizer->decode(tokenizer->encode("a <b>bold<b> c")),
              prepends ? "a <b> bold<b>  c" : "a <b>bold<b> c");
  }
}

TEST(Decode, AFreeIdIsNoText) {
  const auto tokenizer = Tokenizer::parse(R"({"added_tokens": [{"id": 9, "content": "<x>"}],
      "decoder": {"type": "Fuse"}, "model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 5}}})",
                                          "t");
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{0, 3, 5, 8, 9}), "ab<x>");
  EXPECT_EQ(tokenizer->token_of(3), "");
  EXPECT_THROW(tokenizer->decode(std::vector<int32_t>{10}), Error);
}

TEST(Decode, ByteLevelGivesTheTextBack) {
  Json file = byte_level(
      Json::array({token(256, "<|endoftext|>", true, false), token(257, "\u00E9 \u2581", false, false),
                   token(258, "   ", false, true), token(259, "caf\u00E9", false, true)}));
  // The bytes by the names that this kind of tokenizer gives them.
  Json vocab = Json::object();
  int other = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int code = printable ? byte : 256 + other++;
    const std::string name =
        code < 128 ? std::string(1, static_cast<char>(code))
                   : std::string{static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
    vocab[name] = byte;
  }
  file["model"] = {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}};
  for (const bool composes : {false, true}) {
    if (composes) file["normalizer"] = {{"type", "NFC"}};
    const auto tokenizer = Tokenizer::parse(file.dump(), "t");
    for (const char* text :
         {"a b", "x \u00E9 \u2581 y", "a    b", "\u00E9", "<|endoftext|> a<|endoftext|>", " "})
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << composes;
    // An added token whose characters all stand for bytes decodes to those, as in Hugging Face's tokenizers.
    EXPECT_EQ(tokenizer->decode(tokenizer->encode("caf\u00E9")), "caf\xE9");
  }
}

}  // namespace
}  // namespace athanor::tests::decode_test
