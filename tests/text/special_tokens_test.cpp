// Which tokens begin and end a text: by what the folder's files say, in their order.
#include "athanor/text/special_tokens.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/text/tokenizer.h"
#include "support/temporary_folder.h"

namespace athanor::tests::special_tokens_test {
namespace {

using Json = nlohmann::json;

constexpr const char* kNames[] = {"a", "b", "<s>", "</s>", "<EOS>", "<BOS>", "<|endoftext|>", "[SEP]"};

// A tokenizer whose added tokens are those of kNames with these ids; negative: not special.
std::string tokenizer_with(const std::vector<int>& added, const Json& post_processor = nullptr) {
  Json tokens = Json::array();
  for (const int id : added)
    tokens.push_back({{"id", std::abs(id)}, {"content", kNames[std::abs(id)]}, {"special", id > 0}});
  return Json{{"version", "1.0"},
              {"added_tokens", tokens},
              {"post_processor", post_processor},
              {"model", {{"type", "WordLevel"}, {"unk_token", "a"}, {"vocab", {{"a", 0}, {"b", 1}}}}}}
      .dump();
}

const Json kTemplate = Json::parse(R"({"type": "TemplateProcessing",
  "single": [{"SpecialToken": {"id": "x", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
             {"SpecialToken": {"id": "y", "type_id": 0}}],
  "special_tokens": {"x": {"id": "x", "ids": [5], "tokens": ["<BOS>"]}, "y": {"id": "y", "ids": [4], "tokens": ["<EOS>"]}}})");
const Json kRoberta = Json::parse(R"({"type": "RobertaProcessing", "sep": ["</s>", 3], "cls": ["<s>", 2]})");
const Json kSequence =
    Json{{"type", "Sequence"}, {"processors", Json::array({{{"type", "ByteLevel"}}, kRoberta})}};

using Ids = std::vector<int32_t>;

struct Case {
  const char* name;
  std::string tokenizer;
  TokenizerFiles files;
  std::optional<int32_t> begin, end;
  Ids before, stops;
};

TEST(SpecialTokens, ComeFromTheFilesInTheirOrder) {
  const auto none = std::nullopt;
  const std::vector<Case> cases = {
      {"nothing", tokenizer_with({}), {}, none, none, {}, {}},
      {"usual names", tokenizer_with({2, 3}), {}, 2, 3, {}, {3}},
      {"a tag of HTML is no end", tokenizer_with({-2, -3}), {}, none, none, {}, {}},
      {"the special one wins", tokenizer_with({-3, 7}), {}, none, 7, {}, {7}},
      {"an unmistakable name", tokenizer_with({-6}), {}, 6, 6, {}, {6}},
      {"template", tokenizer_with({2, 3, 4, 5}, kTemplate), {}, 5, 4, {5}, {4}},
      {"roberta", tokenizer_with({2, 3, 6}, kRoberta), {}, 2, 3, {2}, {3}},
      {"sequence", tokenizer_with({2, 3, 6}, kSequence), {}, 2, 3, {2}, {3}},
      {"tokenizer_config",
       tokenizer_with({2, 3, 4, 5}),
       {{"tokenizer_config.json",
         R"({"eos_token": "<EOS>", "bos_token": {"content": "<BOS>", "lstrip": false}})"}},
       5,
       4,
       {},
       {4}},
      {"an ordinary added token",
       tokenizer_with({2, 3, -4}),
       {{"tokenizer_config.json", R"({"eos_token": "<EOS>"})"}},
       2,
       4,
       {},
       {4}},
      {"special_tokens_map",
       tokenizer_with({2, 3, 4, 5}),
       {{"special_tokens_map.json", R"({"eos_token": {"content": "<EOS>"}})"}},
       2,
       4,
       {},
       {4}},
      {"config before map",
       tokenizer_with({2, 3, 4, 5}),
       {{"special_tokens_map.json", R"({"eos_token": "</s>"})"},
        {"tokenizer_config.json", R"({"eos_token": "<EOS>"})"}},
       2,
       4,
       {},
       {4}},
      {"null says nothing",
       tokenizer_with({2, 3, 4}),
       {{"tokenizer_config.json", R"({"eos_token": null, "bos_token": ""})"}},
       2,
       3,
       {},
       {3}},
      {"ids of the model",
       tokenizer_with({2, 3, 4, 5}),
       {{kTokenIdsFile, R"({"bos_token_id": 5, "eos_token_id": [4, 3]})"}},
       5,
       4,
       {},
       {4, 3}},
      {"ids for generating",
       tokenizer_with({2, 3, 4, 5}),
       {{kTokenIdsFile, R"({"eos_token_id": 3})"}, {"generation_config.json", R"({"eos_token_id": [4, 7]})"}},
       2,
       3,
       {},
       {4, 7, 3}},
      {"default ids that are ordinary tokens",
       tokenizer_with({3}),
       {{kTokenIdsFile, R"({"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": -1})"}},
       none,
       3,
       {},
       {1, 3}},
      {"none is -1", tokenizer_with({3}), {{kTokenIdsFile, R"({"eos_token_id": -1})"}}, none, 3, {}, {3}},
      {"add_bos_token",
       tokenizer_with({2, 3}),
       {{"tokenizer_config.json", R"({"add_bos_token": true, "bos_token": "<s>", "eos_token": "</s>"})"}},
       2,
       3,
       {2},
       {3}},
      {"add_bos_token beside a template",
       tokenizer_with({2, 3}, kRoberta),
       {{"tokenizer_config.json", R"({"add_bos_token": true, "bos_token": "<s>"})"}},
       2,
       3,
       {2},
       {3}},
      {"add_bos_token is false",
       tokenizer_with({2, 3}, kRoberta),
       {{"tokenizer_config.json", R"({"add_bos_token": false})"}},
       2,
       3,
       {},
       {3}},
  };
  for (const Case& each : cases) {
    const SpecialTokens found = Tokenizer::parse(each.tokenizer, "t", each.files)->special_tokens();
    EXPECT_EQ(found.begin, each.begin) << each.name;
    EXPECT_EQ(found.end, each.end) << each.name;
    EXPECT_EQ(found.before, each.before) << each.name;
    EXPECT_EQ(found.stops, each.stops) << each.name;
    EXPECT_EQ(found.end_from.empty(), !each.end) << each.name;
  }
}

TEST(SpecialTokens, SurroundDocumentsAndPrompts) {
  const auto tokenizer = Tokenizer::parse(tokenizer_with({2, 3}, kRoberta), "t");
  EXPECT_EQ(tokenizer->encode_document("b"), (Ids{2, 1, 3}));
  EXPECT_EQ(tokenizer->encode_prompt("b"), (Ids{2, 1}));
  EXPECT_EQ(tokenizer->encode_prompt("<s>b"), (Ids{2, 1})) << "it stands there already";
  EXPECT_EQ(tokenizer->encode_prompt(""), (Ids{2}));
  const auto plain = Tokenizer::parse(tokenizer_with({}), "t");
  EXPECT_EQ(plain->encode_document("b"), (Ids{1}));
}

// The identity of a tokenizer is that of its tokenizer.json, unless other files change what documents become.
TEST(SpecialTokens, OtherIdsAreAnotherTokenizer) {
  const auto identity = [](const TokenizerFiles& files) {
    return Tokenizer::parse(tokenizer_with({2, 3, 4}), "t", files)->special_tokens().identity;
  };
  EXPECT_EQ(identity({}), "");
  EXPECT_EQ(identity({{"tokenizer_config.json", R"({"eos_token": "</s>", "chat_template": "x"})"}}), "");
  EXPECT_NE(identity({{"tokenizer_config.json", R"({"eos_token": "<EOS>"})"}}), "");
  EXPECT_NE(identity({{"tokenizer_config.json", R"({"add_bos_token": true})"}}), "");
  EXPECT_NE(identity({{"added_tokens.json", R"({"new": 8})"}}), "");
}

TEST(SpecialTokens, TokensBesideAreTokens) {
  const auto ids = [](const TokenizerFiles& files, const std::string& text) {
    return Tokenizer::parse(tokenizer_with({3}), "t", files)->encode(text);
  };
  EXPECT_EQ(ids({{"added_tokens.json", R"({"<|im_start|>": 8, "</s>": 3})"}}, "<|im_start|>b"), (Ids{8, 1}));
  EXPECT_EQ(ids({{"tokenizer_config.json",
                  R"({"added_tokens_decoder": {"8": {"content": "<x>", "rstrip": true}}})"}},
                "<x> b"),
            (Ids{8, 1}));
  // A document may forge the ordinary one, not the special one.
  const TokenizerFiles named = {{"added_tokens.json", R"({"<x>": 8, "<y>": 9, "<z>": 10})"},
                                {"tokenizer_config.json", R"({"additional_special_tokens": ["<x>"]})"},
                                {"special_tokens_map.json", R"({"pad_token": {"content": "<z>"}})"}};
  EXPECT_EQ(Tokenizer::parse(tokenizer_with({}), "t", named)->encode_ordinary("<x><y><z>"), (Ids{0, 9, 0}));
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Far less than a look at each token for each of them: that was some hundred times the parsing of the JSON.
TEST(SpecialTokens, FiftyThousandBesideAreReadInLinearTime) {
  constexpr int kTokens = 50000;
  Json decoder = Json::object();
  for (int i = 0; i < kTokens; ++i)
    decoder[std::to_string(i + 2)] = {{"content", fmt::format("<{}>", i)}, {"special", i % 2 == 0}};
  const std::string config = Json{{"added_tokens_decoder", decoder}}.dump();
  double start = processor_seconds();
  EXPECT_EQ(Json::parse(config).size(), 1u);
  const double parsing = processor_seconds() - start;
  start = processor_seconds();
  const auto tokenizer = Tokenizer::parse(tokenizer_with({}), "t", {{"tokenizer_config.json", config}});
  EXPECT_LT(processor_seconds() - start, 40 * parsing);
  EXPECT_EQ(tokenizer->encode("<0><49999><31>"), (Ids{2, 50001, 33}));
  EXPECT_EQ(tokenizer->vocab_size(), kTokens + 2);
}

TEST(SpecialTokens, WhatContradictsIsRefusedByName) {
  struct Wrong {
    const char *file, *text;
    std::vector<const char*> named;
  };
  for (const Wrong& each : std::vector<Wrong>{
           {"tokenizer_config.json", R"({"eos_token": "<nobody>"})", {"eos_token", "<nobody>"}},
           {"special_tokens_map.json", R"({"bos_token": "<nobody>"})", {"bos_token", "<nobody>"}},
           {"tokenizer_config.json", R"({"eos_token": 3})", {"eos_token", "string"}},
           {"tokenizer_config.json", "[", {"not valid JSON"}},
           {"generation_config.json", R"({"eos_token_id": "x"})", {"eos_token_id", "integer"}},
           {"added_tokens.json", R"({"</s>": 4})", {"'</s>' the id 4", "which is 3"}},
           {"added_tokens.json", R"({"new": 0})", {"'new' the id 0", "'a'"}},
           {"added_tokens.json", R"({"new": 3})", {"'new' the id 3", "'</s>'"}},
           {"added_tokens.json", R"({"new": 2000000000})", {"'new'", "2000000000"}},
           {"added_tokens.json", R"({"new": -1})", {"new", "-1"}},
           {"added_tokens.json", R"(["new"])", {"got array, expected object"}},
           {"tokenizer_config.json", R"(["new"])", {"got array, expected object"}},
           {"tokenizer_config.json",
            R"({"added_tokens_decoder": {"x": {"content": "<x>"}}})",
            {"added_tokens_decoder.x"}},
       }) {
    try {
      Tokenizer::parse(tokenizer_with({3}), "f/tokenizer.json", {{each.file, each.text}});
      ADD_FAILURE() << each.text;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find(std::string("f/") + each.file), 0u) << error.what();
      for (const char* named : each.named)
        EXPECT_NE(std::string(error.what()).find(named), std::string::npos) << error.what();
    }
  }
}

TEST(SpecialTokens, ATemplateWithoutItsTokensIsRefused) {
  try {
    Tokenizer::parse(tokenizer_with({2}, kRoberta), "t");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("post_processor: has the id 3"), std::string::npos)
        << error.what();
  }
}

TEST(SpecialTokens, AFileOfAnotherNameStandsAlone) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder.path(name)) << text;
  };
  write("tokenizer.json", tokenizer_with({3, 4}));
  write("mine.json", tokenizer_with({3, 4}));
  write("tokenizer_config.json",
        "\xEF\xBB\xBF"
        R"({"eos_token": "<EOS>"})");
  write("config.json", "# of another program");
  EXPECT_EQ(Tokenizer::load(system_env(), folder.path("tokenizer.json"))->end_of_text(), 4);
  EXPECT_EQ(Tokenizer::load(system_env(), folder.path("mine.json"))->end_of_text(), 3);
}

}  // namespace
}  // namespace athanor::tests::special_tokens_test
