// Words of a list are counted, by an automaton and by a plain search.
#include "athanor/corpus/filters/keywords.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "athanor/base/error.h"

namespace athanor::tests::keywords_test {
namespace {

using corpus::filters::KeywordOptions;
using corpus::filters::make_keywords;

std::vector<double> scores(const KeywordOptions& options, const std::string& text) {
  std::vector<double> values(2);
  corpus::Document document{.text = text};
  make_keywords(options)->annotate(document, values);
  return values;
}
double count(const KeywordOptions& options, const std::string& text) {
  return scores(options, text)[0];
}

TEST(Keywords, WholeWordsOrParts) {
  EXPECT_EQ(count({.words = {"cat"}}, "Cat, cats concat cat_ (cat)"), 2);
  EXPECT_EQ(count({.words = {"cat"}, .whole_words = false}, "Cat, cats concat cat_ (cat)"), 5);
  EXPECT_EQ(count({.words = {"cat"}, .ignore_case = false}, "Cat cat"), 1);
  EXPECT_EQ(count({.words = {"ÉTÉ"}}, "été étés"), 1);
  EXPECT_EQ(count({.words = {"博彩"}}, "网上博彩网站"), 1);
  EXPECT_EQ(count({.words = {"lorem ipsum", "c++"}}, "Lorem Ipsum, C++!"), 2);
}

TEST(Keywords, TheShareCountsEachByteOnce) {
  EXPECT_EQ(scores({.words = {"ab", "bc"}, .whole_words = false}, "abcxx"), (std::vector<double>{2, 0.6}));
  EXPECT_TRUE(std::isnan(scores({.words = {"a"}}, "")[1]));
}

TEST(Keywords, EqualsAPlainSearch) {
  std::mt19937_64 bits(5);
  for (int round = 0; round < 300; ++round) {
    const auto word = [&](size_t most) {
      std::string out;
      for (size_t n = 1 + bits() % most; n > 0; --n) out += static_cast<char>('a' + bits() % 3);
      return out;
    };
    std::set<std::string> words;
    for (int i = 0; i < 6; ++i) words.insert(word(4));
    const std::string text = word(60);
    double expected = 0;
    std::vector<bool> covered(text.size());
    for (const std::string& entry : words)
      for (size_t at = text.find(entry); at != std::string::npos; at = text.find(entry, at + 1)) {
        ++expected;
        for (size_t i = 0; i < entry.size(); ++i) covered[at + i] = true;
      }
    const auto covered_bytes = static_cast<double>(std::count(covered.begin(), covered.end(), true));
    EXPECT_EQ(scores({.words = {words.begin(), words.end()}, .whole_words = false}, text),
              (std::vector<double>{expected, covered_bytes / static_cast<double>(text.size())}));
  }
}

TEST(Keywords, RulesDropOrKeep) {
  const auto broken = [](const KeywordOptions& options, const std::string& text) {
    const auto stage = make_keywords(options);
    std::vector<double> values(2);
    corpus::Document document{.text = text};
    stage->annotate(document, values);
    return first_broken(stage->rules(), values) != nullptr;
  };
  EXPECT_FALSE(broken({.words = {"a"}, .most = 2}, "a a"));
  EXPECT_TRUE(broken({.words = {"a"}, .most = 2}, "a a a"));
  EXPECT_FALSE(broken({.words = {"a"}, .most = -1, .most_share = 0.5}, "a b "));
  EXPECT_TRUE(broken({.words = {"a"}, .most = -1, .most_share = 0.5}, "a a"));
  EXPECT_TRUE(broken({.words = {"a"}, .keep = true}, "b"));
  EXPECT_FALSE(broken({.words = {"a"}, .keep = true}, "a a a"));
  EXPECT_FALSE(broken({.words = {"a"}}, ""));
  EXPECT_THROW(make_keywords({}), ConfigError);
}

TEST(Keywords, OddTextsDoNotCrash) {
  for (const std::string& text : {std::string("\xff\xfe"), std::string("\x80\x80\x80"), std::string(1, '\0')})
    EXPECT_EQ(count({.words = {"a"}}, text), 0);
}

}  // namespace
}  // namespace athanor::tests::keywords_test
