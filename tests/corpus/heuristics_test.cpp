#include "athanor/corpus/heuristics/heuristics.h"

#include <gmock/gmock.h>

#include <set>

#include "athanor/base/error.h"
#include "corpus/heuristics_probe.h"

namespace athanor::tests::heuristics_test {
namespace {

using heuristics_probe::probe;
using heuristics_probe::Probe;
using heuristics_probe::times;
using ::testing::HasSubstr;
using namespace std::string_literals;

TEST(Heuristics, EveryPresetHasDistinctNamesFormulasAndRulesWithALimit) {
  for (const std::string& preset : heuristics_presets()) {
    SCOPED_TRACE(preset);
    const std::unique_ptr<Stage> stage = make_heuristics({.preset = preset});
    std::set<std::string> names;
    for (const Score& score : stage->scores()) {
      EXPECT_TRUE(names.insert(score.name).second) << score.name;
      EXPECT_FALSE(score.formula.empty());
    }
    EXPECT_FALSE(stage->rules().empty());
    for (const Rule& rule : stage->rules()) {
      ASSERT_LT(rule.score, stage->scores().size());
      EXPECT_EQ(rule.name, stage->scores()[rule.score].name);
      EXPECT_TRUE(std::isfinite(rule.least) || std::isfinite(rule.most));
    }
  }
}

TEST(Heuristics, GopherIsQualityThenRepetition) {
  const auto names = [](const std::string& preset) {
    std::vector<std::string> list;
    const std::unique_ptr<Stage> stage = make_heuristics({.preset = preset});
    for (const Rule& rule : stage->rules()) list.push_back(rule.name);
    return list;
  };
  std::vector<std::string> both = names("gopher-quality");
  for (const std::string& name : names("gopher-repetition")) both.push_back(name);
  EXPECT_EQ(names("gopher"), both);
  EXPECT_EQ(make_heuristics({})->rules().size(), both.size());
}

TEST(Heuristics, AnUnknownPresetIsNamedWithTheNearest) {
  try {
    make_heuristics({.preset = "finewebb"});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("heuristics.preset: got 'finewebb', expected one of gopher, "));
    EXPECT_THAT(error.hint(), HasSubstr("'fineweb'"));
  }
  EXPECT_THROW(make_heuristics({.preset = ""}), ConfigError);
}

TEST(Heuristics, TheFieldsArePresetAndTokenizer) {
  ASSERT_EQ(heuristics_fields().size(), 2u);
  HeuristicsOptions options;
  const config::Field<HeuristicsOptions>& field = heuristics_fields()[0];
  EXPECT_EQ(field.key(), "heuristics.preset");
  config::assign(field.slot(options), std::string("zh"));
  EXPECT_EQ(options.preset, "zh");
  EXPECT_EQ(field.traits.choices, heuristics_presets());
  EXPECT_EQ(heuristics_fields()[1].key(), "heuristics.tokenizer");
}

// What is no number says nothing; how many words there are is a number always.
TEST(Heuristics, OfATextWithoutWordsRatiosAreNotNumbersAndBreakNoRule) {
  for (const std::string& text : {""s, " "s, "\n\n \t\u3000"s}) {
    for (const auto& [preset, count] :
         std::vector<std::pair<std::string, std::string>>{{"gopher", "gopher.words"},
                                                          {"fineweb", "fineweb.filled_lines"},
                                                          {"curator", "curator.words"},
                                                          {"zh", "zh.chars"}}) {
      SCOPED_TRACE(preset);
      const Probe got = probe(preset, text);
      EXPECT_EQ(got.value(count), 0);
      EXPECT_TRUE(got.breaks(count));
    }
    const Probe gopher = probe("gopher", text);
    for (const char* name :
         {"gopher.mean_word_length", "gopher.hashes_per_word", "gopher.words_with_letter"}) {
      EXPECT_TRUE(std::isnan(gopher.value(name))) << name;
      EXPECT_FALSE(gopher.breaks(name)) << name;
    }
  }
  EXPECT_TRUE(std::isnan(probe("gopher", "").value("gopher.top_2_gram")));
  EXPECT_TRUE(std::isnan(probe("gopher", "...").value("gopher.mean_word_length")));  // only marks
  EXPECT_TRUE(std::isnan(probe("curator", "one").value("curator.top_2_gram")));
  EXPECT_TRUE(std::isnan(probe("code", "").value("code.letters")));
}

TEST(Heuristics, OddTextsPassThroughEveryPreset) {
  const std::vector<std::string> texts = {"",
                                          "a",
                                          "\n",
                                          "\0"s,
                                          "a\0b \0\n\0"s,
                                          "\xff\xfe",
                                          "a \x80\xbf\xc3",
                                          "\xe2\x80",
                                          "\xf4\x90\x80\x80 x",
                                          "e\u0301 e\u0301",
                                          "\u4e2d\u6587",
                                          std::string(1 << 16, 'a'),
                                          times("a ", 1 << 14),
                                          times("\n", 5000),
                                          times("\u4e2d", 10'000),
                                          "[",
                                          "[12",
                                          "<",
                                          "<!--",
                                          "<script",
                                          "&",
                                          "'''",
                                          "\"",
                                          "http",
                                          "https://",
                                          "#",
                                          "/*"};
  for (const std::string& preset : heuristics_presets())
    for (const std::string& text : texts)
      for (const char* id : {"a/0", "a.py", "a.html", "a.c", "a.sh"}) {
        const Probe got = probe(preset, text, id);
        if (!preset.starts_with("c4")) {
          EXPECT_EQ(got.text, text) << preset;
        }
        for (const double value : got.values) EXPECT_FALSE(std::isinf(value)) << preset;
      }
}

TEST(Heuristics, TheSameTextGivesTheSameBits) {
  const std::string text = times("the cat sat on the mat. and that was \u4e2d\u6587 all of it\n", 40);
  for (const std::string& preset : heuristics_presets()) {
    const Probe a = probe(preset, text), b = probe(preset, text);
    for (size_t i = 0; i < a.values.size(); ++i)
      EXPECT_TRUE(a.values[i] == b.values[i] || (std::isnan(a.values[i]) && std::isnan(b.values[i])));
    EXPECT_EQ(a.text, b.text);
  }
}

}  // namespace
}  // namespace athanor::tests::heuristics_test
