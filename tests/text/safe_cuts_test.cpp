// Words cut where no merge joins two characters have the ids of the whole, and tables read from the text are those of the
// tree.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "athanor/text/models/bpe_model.h"
#include "athanor/text/models/bpe_tables.h"
#include "text/dice.h"

namespace athanor::tests::safe_cuts_test {

using namespace text;
namespace {

using Json = nlohmann::json;
using Tokens = std::vector<std::pair<std::string, int64_t>>;

const std::vector<std::string> kCharacters = {"a", "b", "c", "\u2581", "\u00E9", "\u4F60", "\u597D"};

// Random merges over a few characters, with the tokens of all bytes.
BpeModel random_model(Dice& dice) {
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.push_back(fmt::format("<0x{:02X}>", byte));
  const size_t first = texts.size();
  texts.insert(texts.end(), kCharacters.begin(), kCharacters.end());
  std::set<std::string> known(texts.begin(), texts.end());
  std::vector<std::pair<int32_t, int32_t>> merges;
  for (int i = 0; i < 12; ++i) {
    const size_t left = first + dice.below(texts.size() - first);
    const size_t right = first + dice.below(texts.size() - first);
    const std::string joined = texts[left] + texts[right];
    if (!known.insert(joined).second) continue;
    texts.push_back(joined);
    merges.emplace_back(static_cast<int32_t>(left), static_cast<int32_t>(right));
  }
  Tokens tokens;
  for (const std::string& text : texts) tokens.emplace_back(text, tokens.size());
  return {Vocabulary("test", std::move(tokens)), merges, {.byte_fallback = true}};
}

TEST(SafeCuts, PartsHaveTheIdsOfTheWhole) {
  Dice dice(5);
  size_t parts = 0, longer = 0;
  for (int round = 0; round < 2000; ++round) {
    const BpeModel model = random_model(dice);
    std::string text;
    for (uint64_t n = dice.below(60); n > 0; --n) {
      const size_t which = dice.below(kCharacters.size() + 2);
      text += which < kCharacters.size()    ? kCharacters[which]
              : which == kCharacters.size() ? "\u3042"
                                            : "\xFF";
    }
    std::vector<int32_t> whole, cut;
    model.encode_word(text, whole);
    for (size_t at = 0; at < text.size();) {
      const size_t end = model.part_end(text, at);
      ASSERT_GT(end, at);
      model.encode_word(std::string_view(text).substr(at, end - at), cut);
      ++parts;
      longer += end - at > 4;
      at = end;
    }
    ASSERT_EQ(cut, whole) << "round " << round;
  }
  EXPECT_GT(parts, 2000u * 5);
  EXPECT_GT(longer, 2000u);
}

TEST(SafeCuts, WordsThatMustStayWholeAreNotCut) {
  const auto end_of = [](BpeOptions options) {
    return BpeModel(Vocabulary("test", Tokens{{"a", 0}, {"b", 1}}), {}, std::move(options))
        .part_end("abab", 0);
  };
  EXPECT_EQ(end_of({}), 4u);                       // unknown characters are left out, and others meet
  EXPECT_EQ(end_of({.byte_fallback = true}), 4u);  // no bytes to fall back to
}

std::optional<text::models::BpeTables> read(const std::string& model) {
  return text::models::read_bpe_tables(R"({"a": [{"model": "}"}, 1e3], "model": )" + model +
                                       R"(, "b": "\"]"})");
}

TEST(BpeTables, AreThoseOfTheTree) {
  const std::string text =
      R"({"type": "BPE", "x": [1, {"vocab": "]"}], "vocab" : {"a":0 , "\u00e9\ud83d\ude00\n\"": 12,"é": 3},)"
      R"( "merges": ["a é", [ "a" , "\u0020b"]], "y": null})";
  const std::string file = R"({"z": {"merges": 1}, "model": )" + text + "}";
  const auto tables = text::models::read_bpe_tables(file);
  ASSERT_TRUE(tables);
  const Json tree = Json::parse(text);
  ASSERT_EQ(tables->vocab.size(), tree["vocab"].size());
  for (const auto& [token, id] : tables->vocab) EXPECT_EQ(tree["vocab"].at(std::string(token)), id);
  ASSERT_EQ(tables->merges.size(), 2u);
  EXPECT_EQ(tables->merges[0], (std::pair<std::string_view, std::string_view>("a", "é")));
  EXPECT_EQ(tables->merges[1], (std::pair<std::string_view, std::string_view>("a", " b")));
  ASSERT_EQ(tables->places.size(), 2u);
  const auto [begin, end] = tables->places[0];
  EXPECT_EQ(Json::parse(file.substr(begin, end - begin)), tree["vocab"]);
}

TEST(BpeTables, TextWithAFlawIsLeftToTheTree) {
  EXPECT_TRUE(read(R"({"vocab": {"a": 0}, "merges": []})"));
  for (const char* const model :
       {R"({"vocab": {"a": 01}, "merges": []})", R"({"vocab": {"a": -1}, "merges": []})",
        R"({"vocab": {"a": 1.5}, "merges": []})", R"({"vocab": {"\ud83d": 1}, "merges": []})",
        R"({"vocab": {"a": 99999999999}, "merges": []})", R"({"vocab": ["a"], "merges": []})",
        R"({"vocab": {"a": 0}, "merges": ["a  a"]})", R"({"vocab": {"a": 0}, "merges": [["a"]]})",
        R"({"vocab": {"a": 0}, "merges": [], "merges": []})",
        R"({"type": "Unigram", "vocab": {}, "merges": []})", R"({"vocab": {"a": 0,}, "merges": []})",
        R"({"vocab": {"a": 0}})", "{\"vocab\": {\"\xFF\": 0}, \"merges\": []}",
        "{\"vocab\": {\"\n\": 0}, \"merges\": []}", "3"})
    EXPECT_FALSE(read(model)) << model;
}

}  // namespace
}  // namespace athanor::tests::safe_cuts_test
