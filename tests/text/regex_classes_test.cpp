// Classes of characters mean the same whatever Oniguruma is installed.
#include "athanor/text/pre_tokenizers/regex_classes.h"

#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "athanor/text/pre_tokenizers/regex.h"

namespace athanor::tests::regex_classes_test {

using namespace text;
namespace {

std::string matched(const std::string& pattern, std::string_view text) {
  std::string all;
  Regex(pattern).for_each_match(text,
                                [&](size_t begin, size_t end) { all += text.substr(begin, end - begin); });
  return all;
}

TEST(RegexClasses, PunctuationHasTheSymbolsOfAscii) {
  const std::string ascii = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
  const std::string text = "a1 " + ascii + "\n\u00A7\u3002\u20AC";
  for (const char* pattern : {"[[:punct:]]", R"(\p{Punct})", R"([\p{punct}])", R"(\P{^Punct})",
                              "[^[:^punct:]]", R"([^\P{Punct}])", R"([[:punct:]&&[^a]])"})
    EXPECT_EQ(matched(pattern, text), ascii + "\u00A7\u3002") << pattern;
  EXPECT_EQ(matched("[[:^punct:]]+", "a<b>\u20AC"), "ab\u20AC");
  EXPECT_EQ(matched("[[:punct:]\\d]+", "a<1>b2"), "<1>2");
  EXPECT_EQ(matched("[^[:punct:]\\s]+", "a <b>"), "ab");
  EXPECT_EQ(matched("\\P{Punct}", "<a>"), "a");
}

TEST(RegexClasses, OthersStay) {
  for (const char* pattern : {"[[:ascii:][:^blank:]]", R"(\[[:punct:]\])", "[:punct:]", R"([^]:]+)", "[]a]",
                              R"(\\[a\]b])", R"(\p{Greek}\P{Thai}\b\B)", R"(\\w)", "[a[b]c]", "[", "\\"})
    EXPECT_EQ(spell_out_classes(pattern), pattern);
  EXPECT_EQ(matched("[[:digit:]]+", "a12b"), "12");
}

TEST(RegexClasses, AreThoseOfUnicode16) {
  EXPECT_EQ(spell_out_classes("\\p{Zl}"), "[\\x{2028}]");
  EXPECT_EQ(spell_out_classes("[^\\P{ pc }a]"),
            "[^[^\\x{5F}\\x{203F}-\\x{2040}\\x{2054}\\x{FE33}-\\x{FE34}\\x{FE4D}-\\x{FE4F}\\x{FF3F}]a]");
  const std::string ideograph = "\U0002EBF0", garay = "\U00010D50",
                    digit = "\U00010D40";  // of 15.1, 16 and 16
  EXPECT_EQ(matched("\\p{L}+", "a" + ideograph + "b 1" + garay), "a" + ideograph + "b" + garay);
  EXPECT_EQ(matched("\\p{Lu}", garay + "a"), garay);
  EXPECT_EQ(matched("\\d", digit + "7x"), digit + "7");
  EXPECT_EQ(matched("[^\\s\\p{L}]", ideograph + " +1"), "+1");
  EXPECT_EQ(matched("[\\p{Han}&&[^\u4E00]]", ideograph + "\u4E00a"), ideograph);
  EXPECT_EQ(matched("(?i:\\p{Lu})", "aB1"), "aB") << "case is folded as in Oniguruma's own classes";
}

TEST(RegexClasses, UnknownOnesAreRefused) {
  for (const char* const name : {"punkt", "letter", "^alfa"}) {
    try {
      spell_out_classes(std::string("[[:") + name + ":]]");
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(spell_out_classes("[[:word2:]]"), "[[:word2:]]") << "no name of a class: characters";
}

}  // namespace
}  // namespace athanor::tests::regex_classes_test
