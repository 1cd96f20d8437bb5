#include "athanor/config/print.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "athanor/base/human.h"
#include "athanor/config/fields.h"
#include "athanor/config/presets.h"
#include "config/config_testing.h"

namespace athanor::tests::print_test {
namespace {

TEST(Print, ReadsBackToTheSameSettings) {
  const std::vector<std::string> texts = {
      "",
      "[model]\npreset = 'gpt2-124m'\ndropout = 0.1",
      "[model]\nvocab_size = 300",
      "[data]\nchannels = [{name = 'en', path = \"/d \\\"q\\\" \\\\ \\t 数据\", weight = 0.1}]",
      "[data]\nchannels = [{name = 'en', path = 'd'}, {name = 'zh', path = 'z'}]",
      "[data]\nchannels = [{name = 'en', path = 'd', valid_path = 'a b'}, {name = 'zh', path = 'z'}]",
      "[optimizer]\nlr = 1e-300\neps = 5e-324\nbetas = [0.1, 0.30000000000000004]",
      "[train]\nseed = 9223372036854775807",
      "[parallel]\ndp = 7\nstage_layers = [5]\n[model]\nnum_hidden_layers = 5\n[train]\nname = '代码'",
      "[train]\ntrace = true",
  };
  for (const auto& text : texts) {
    const Config config = parse(text);
    const std::string printed = print_config(config);
    EXPECT_EQ(different_keys(config, parse(printed)), std::vector<std::string>{}) << printed;
  }
}

// A copy in runs/NAME/ still finds the data.
TEST(Print, AnchoredPathsMeanTheSameFromAnyFolder) {
  const std::string text = "[data]\ntokenizer = 't.json'\nchannels = [{name = 'a', path = 'x'}]";
  const Config config = parse_config(text, "first.toml", "/data/en");
  const Config copy = parse_config(print_config(config), "config.resolved.toml", "/runs/first");
  EXPECT_EQ(copy.data.tokenizer, "/data/en/t.json");
  EXPECT_TRUE(different_keys(config, copy).empty());
}

// An unresolved vocabulary must stay open through a print.
TEST(Print, WhatIsOpenStaysOpen) {
  Config config = parse(print_config(parse("[model]\npreset = 'llama-tiny'")));
  EXPECT_EQ(config.model.vocab_size, 0);
  resolve_model(config, 1000);
  EXPECT_EQ(config.model.vocab_size, 1024);
}

TEST(Print, EveryFieldIsPrintedAndCompared) {
  const Config base = parse("[model]\nvocab_size = 64");
  const std::string printed = print_config(base);
  for (const auto& field : config_fields()) {
    Config changed = base;
    const Slot slot = field.slot(changed);
    if (auto* const* text = std::get_if<std::string*>(&slot)) **text += "x";
    if (auto* const* integer = std::get_if<int64_t*>(&slot)) **integer += 1;
    if (auto* const* natural = std::get_if<uint64_t*>(&slot)) **natural += 1;
    if (auto* const* real = std::get_if<double*>(&slot)) **real += 0.5;
    if (auto* const* flag = std::get_if<bool*>(&slot)) **flag = !**flag;
    if (auto* const* reals = std::get_if<std::vector<double>*>(&slot)) (*reals)->push_back(0.5);
    if (auto* const* integers = std::get_if<std::vector<int64_t>*>(&slot)) (*integers)->push_back(2);
    if (auto* const* texts = std::get_if<std::vector<std::string>*>(&slot)) (*texts)->push_back("x");
    if (auto* const* list = std::get_if<std::vector<ChannelConfig>*>(&slot))
      (*list)->push_back({"a", "b", 1.0});
    if (auto* const* list = std::get_if<std::vector<OptimizerGroupConfig>*>(&slot))
      (*list)->push_back({.match = "*.bias"});
    EXPECT_EQ(different_keys(base, changed), std::vector<std::string>{field.key()});
    EXPECT_NE(print_config(changed), printed) << field.key();
  }
}

// For a window, notes are broken; what is printed still means the same.
TEST(Print, KeepsToTheColumnsOfAWindow) {
  const Config config =
      parse("[train]\nsample_every = 5\nsample_prompts = ['a \\\"b', '中']\n[model]\nvocab_size = 64");
  for (const size_t columns : {80u, 100u, 119u, 120u, 200u}) {
    const std::string printed = print_config(config, columns);
    EXPECT_TRUE(different_keys(parse(printed), config).empty()) << printed;
    EXPECT_EQ(printed.find("first.toml:2") != std::string::npos, columns >= 120) << printed;
    std::istringstream in(printed);
    for (std::string line; std::getline(in, line);) EXPECT_LE(display_width(line), columns) << line;
  }
}

TEST(Print, ShowsUnitsOriginsAndParameters) {
  const std::string text = print_config(parse("[model]\npreset = 'gpt2-124m'\n[train]\nsteps = 7"));
  EXPECT_NE(text.find("124,439,808"), std::string::npos) << text;
  EXPECT_NE(text.find("sequences per optimizer step"), std::string::npos);
  EXPECT_NE(text.find("first.toml:4"), std::string::npos);
  EXPECT_NE(text.find("preset gpt2-124m"), std::string::npos);
  EXPECT_NE(text.find("dp                      = \"auto\""), std::string::npos) << text;
}

TEST(Print, SaysWhatAPatternLeaves) {
  const std::string text = print_config(parse(
      "[model]\npreset = 'gpt2-124m'\nattention_pattern = 'causal + window:64'\n[data]\nseq_len = 128"));
  // 128 queries of 64 keys, but that the first 63 have fewer: 6,176 of 8,256 pairs, in all three blocks.
  EXPECT_NE(text.find("# Attention: 74.8 % of the causal pairs, 100.0 % of the blocks"), std::string::npos)
      << text;
  EXPECT_EQ(print_config(parse("[model]\npreset = 'gpt2-124m'")).find("# Attention"), std::string::npos);
}

TEST(Print, HostileNamesStayInsideTheirComment) {
  Config config = parse("");
  config.origins["train.steps"] = {Origin::Kind::file, "a\n[train]\nsteps = 1\x1b\xff:3"};
  const std::string printed = print_config(config);
  EXPECT_TRUE(different_keys(parse(printed), config).empty());
}

TEST(Print, Json) {
  const auto json =
      nlohmann::json::parse(config_to_json(parse("[model]\npreset = 'llama-2-7b'\n[train]\nsteps = 3")));
  EXPECT_EQ(json["params"], 6738415616);
  EXPECT_EQ(json["train"]["steps"], 3);
  EXPECT_EQ(json["parallel"]["dp"], "auto");
  EXPECT_EQ(json["origins"]["train.steps"], "first.toml:4");
  EXPECT_FALSE(nlohmann::json::parse(config_to_json(parse(""))).contains("params"));
}

}  // namespace
}  // namespace athanor::tests::print_test
