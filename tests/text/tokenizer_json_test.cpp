// Damaged and hostile tokenizer.json: one Error that names the file and the key, and no large allocation.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/text/tokenizer.h"
#include "athanor/text/trainers/trainer.h"
#include "text/dice.h"

namespace athanor::tests::tokenizer_json_test {
namespace {

using Json = nlohmann::json;

Json valid() {
  return Json::parse(R"({
    "version": "1.0",
    "added_tokens": [{"id": 4, "content": "<s>", "special": true}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]},
    "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\s+"}, "behavior": "Isolated", "invert": false},
    "post_processor": {"type": "TemplateProcessing"},
    "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "unk_token": "<unk>", "vocab": {"<unk>": 0, "a": 1, "b": 2, "ab": 3}, "merges": ["a b"]}
  })");
}

std::string error_of(const std::string& text) {
  try {
    Tokenizer::parse(text, "t.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string error_with(const std::string& pointer, const Json& value) {
  Json file = valid();
  file[Json::json_pointer(pointer)] = value;
  return error_of(file.dump());
}

TEST(TokenizerJson, TheValidFileLoads) {
  const auto tokenizer = Tokenizer::parse(valid().dump(), "t.json");
  EXPECT_EQ(tokenizer->encode("AB c<s>"), (std::vector<int32_t>{3, 0, 0, 4}));
  EXPECT_EQ(tokenizer->vocab_size(), 5);
  EXPECT_EQ(tokenizer->json(), valid().dump());
}

TEST(TokenizerJson, NamesTheKeyThatIsWrong) {
  const std::vector<std::tuple<std::string, Json, std::string>> cases = {
      {"/version", "2.0", "t.json: version: got '2.0'"},
      {"/model", 3, "t.json: model: got number, expected object"},
      {"/model/type", "GPT", "t.json: model.type: got 'GPT'"},
      {"/model/type", 7, "t.json: model.type: got number, expected string"},
      {"/model/vocab", Json::array(), "t.json: model.vocab: got array, expected object"},
      {"/model/vocab/a", "x", "t.json: model.vocab.a: got string, expected integer"},
      {"/model/vocab/a", 1.5, "t.json: model.vocab.a: got number, expected integer"},
      {"/model/vocab/a", -1, "model.vocab: id -1 of 'a'"},
      {"/model/vocab/a", 2, "model.vocab: id 2 is given to both"},
      {"/model/vocab/a", 4000000000, "model.vocab: id 4000000000 of 'a'"},
      {"/model/vocab/a", uint64_t{1} << 63, "model.vocab.a: got number, expected integer"},
      {"/model/vocab/a", 10000000, "model.vocab: id 10000000 of 'a'"},
      {"/model/merges", Json::object(), "model.merges: got object, expected array"},
      {"/model/merges/0", "a c", "model.merges[0]: token 'c' is not in the vocabulary"},
      {"/model/merges/0", "ab", "model.merges[0]: got 'ab'"},
      {"/model/merges/0", "a  b", "model.merges[0]"},
      {"/model/merges/0", Json::array({"a"}), "model.merges[0]: got 1 items, expected 2"},
      {"/model/merges/0", Json::array({"a", 1}), "model.merges[0][1]: got number, expected string"},
      {"/model/merges/0", "b a", "gives 'ba', which is not in the vocabulary"},
      {"/model/dropout", 0.1, "model.dropout: got 0.1"},
      {"/model/fuse_unk", "yes", "model.fuse_unk: got string, expected true or false"},
      {"/added_tokens", 1, "t.json: added_tokens: got number, expected array"},
      {"/added_tokens/0/id", 3, "added_tokens[0].id: got 3, which is 'ab' in the model"},
      {"/added_tokens/0/id", -4, "added_tokens[0].id: got -4"},
      {"/added_tokens/0/id", 100000000, "added_tokens[0].id: got 100000000"},
      {"/added_tokens/0/content", "", "added_tokens[0].content: is empty"},
      {"/added_tokens/1", valid()["added_tokens"][0], "added_tokens[1].content: '<s>' stands twice"},
      {"/normalizer/normalizers/1/type", "Upper", "normalizer.normalizers[1].type: got 'Upper'"},
      {"/pre_tokenizer/pattern/Regex", "(", "pre_tokenizer.pattern.Regex: regex '('"},
      {"/pre_tokenizer/pattern", Json::object(), "pre_tokenizer.pattern: expected"},
      {"/pre_tokenizer/behavior", "Glued", "pre_tokenizer.behavior: got 'Glued'"},
      {"/decoder/type", "Zip", "decoder.type: got 'Zip'"},
      {"/post_processor", 4, "post_processor: got number, expected object"},
  };
  for (const auto& [pointer, value, expected] : cases) {
    const std::string error = error_with(pointer, value);
    EXPECT_NE(error.find(expected), std::string::npos) << pointer << " = " << value << " gave: " << error;
    EXPECT_EQ(error.find("t.json"), 0u) << error;
  }
}

TEST(TokenizerJson, RefusesWhatIsNotOneJsonObject) {
  EXPECT_NE(error_of("").find("t.json: not valid JSON"), std::string::npos);
  EXPECT_NE(error_of("[]").find("t.json: got array, expected object"), std::string::npos);
  EXPECT_NE(error_of("{}").find("t.json: key 'model' is missing"), std::string::npos);
  EXPECT_NE(error_of(valid().dump() + "x").find("not valid JSON"), std::string::npos);
  EXPECT_NE(error_of("{\"a\": \"\xFF\"}").find("not valid JSON"), std::string::npos);
  EXPECT_NE(error_of(R"({"model": {"type": "BPE", "vocab": {"a": 0, "a": 1}, "merges": []}})")
                .find("token 'a' stands twice"),
            std::string::npos);
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "[";
  EXPECT_NE(error_of(deep).find("nested deeper"), std::string::npos);
}

TEST(TokenizerJson, AnyPrefixIsAnError) {
  const std::string text = valid().dump();
  for (size_t size = 0; size < text.size(); ++size)
    ASSERT_NE(error_of(text.substr(0, size)), "no error") << size;
}

// A flipped bit gives either an Error or a tokenizer that works.
TEST(TokenizerJson, BitFlipsAreErrorsOrHarmless) {
  TokenizerTrainer trainer({.vocab_size = 270});
  trainer.add("some text to learn some words from");
  const std::string files[] = {valid().dump(), trainer.finish()};
  Dice dice(1);
  for (const std::string& file : files) {
    for (int round = 0; round < 1000; ++round) {
      std::string text = file;
      const size_t at = dice.below(text.size());
      text[at] = static_cast<char>(text[at] ^ (1 << dice.below(8)));
      try {
        const auto tokenizer = Tokenizer::parse(text, "t.json");
        for (const int32_t id : tokenizer->encode_ordinary("some text")) tokenizer->token_of(id);
      } catch (const Error& error) {
        ASSERT_EQ(std::string(error.what()).find("t.json"), 0u) << error.what();
      }
    }
  }
}

TEST(TokenizerJson, OlderSpellings) {
  // A model without "type", merges as pairs, Metaspace with add_prefix_space.
  const auto tokenizer = Tokenizer::parse(R"({
    "pre_tokenizer": {"type": "Metaspace", "replacement": "_", "add_prefix_space": false},
    "model": {"vocab": {"_": 0, "a": 1, "_a": 2}, "merges": [["_", "a"]]}})",
                                          "t.json");
  EXPECT_EQ(tokenizer->encode("a a"), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{1, 2}), "a _a");
}

TEST(TokenizerJson, WordPieceTakesWordsOfAnyLength) {
  Json file = {{"model",
                {{"type", "WordPiece"},
                 {"vocab", {{"[UNK]", 0}, {"a", 1}, {"##a", 2}}},
                 {"max_input_chars_per_word", 100000}}}};
  EXPECT_EQ(Tokenizer::parse(file.dump(), "t")->encode(std::string(70000, 'a')).size(), 70000u);
  file["model"]["max_input_chars_per_word"] = -1;
  EXPECT_EQ(error_of(file.dump()), "t.json: model.max_input_chars_per_word: got -1, expected at least 0");
}

TEST(TokenizerJson, AnAddedTokenOfTheModelKeepsItsId) {
  Json file = valid();
  file["added_tokens"][0]["content"] = "ab";
  const auto tokenizer = Tokenizer::parse(file.dump(), "t");
  EXPECT_EQ(tokenizer->encode("aab"), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(tokenizer->vocab_size(), 4);
}

TEST(TokenizerJson, UnknownIdsAndLostCharactersAreErrors) {
  const auto tokenizer = Tokenizer::parse(valid().dump(), "t.json");
  EXPECT_THROW(tokenizer->decode(std::vector<int32_t>{5}), Error);
  EXPECT_THROW(tokenizer->decode(std::vector<int32_t>{-1}), Error);
  EXPECT_THROW(tokenizer->token_of(99), Error);
  EXPECT_EQ(tokenizer->id_of("nothing"), std::nullopt);
  EXPECT_EQ(tokenizer->end_of_text(), std::nullopt);
  Json file = valid();
  file["model"]["unk_token"] = "?";
  EXPECT_EQ(Tokenizer::parse(file.dump(), "t.json")->encode("ab"), (std::vector<int32_t>{3}));
  EXPECT_THROW(Tokenizer::parse(file.dump(), "t.json")->encode("xyz"), Error);
  EXPECT_TRUE(Tokenizer::parse(file.dump(), "t.json")->warnings().empty());
  // Without a name for it, what the vocabulary lacks is left out, as in Hugging Face's tokenizers, and a warning says so.
  file["model"].erase("unk_token");
  EXPECT_EQ(Tokenizer::parse(file.dump(), "t.json")->encode("xaybz"), (std::vector<int32_t>{3}));
  EXPECT_EQ(Tokenizer::parse(file.dump(), "t.json")->warnings(),
            (std::vector<std::string>{
                "t.json: model: names no unk_token: characters that the vocabulary lacks are left out"}));
}

}  // namespace
}  // namespace athanor::tests::tokenizer_json_test
