// POSIX classes mean the same whatever Oniguruma is installed.
#include "athanor/text/pre_tokenizers/posix_classes.h"

#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "athanor/text/pre_tokenizers/regex.h"

namespace athanor::tests::posix_classes_test {

using namespace text;
namespace {

std::string matched(const std::string& pattern, std::string_view text) {
  std::string all;
  Regex(pattern).for_each_match(text,
                                [&](size_t begin, size_t end) { all += text.substr(begin, end - begin); });
  return all;
}

TEST(PosixClasses, PunctuationHasTheSymbolsOfAscii) {
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

TEST(PosixClasses, OthersStay) {
  for (const char* pattern : {"[[:alpha:][:^digit:]]", R"(\[[:punct:]\])", "[:punct:]", R"([^]:]+)", "[]a]",
                              R"(\\[a\]b])", R"(\p{P}\p{L}\p{^Alpha})", "[a[b]c]", "[", "\\"})
    EXPECT_EQ(spell_out_posix_classes(pattern), pattern);
  EXPECT_EQ(matched("[[:digit:]]+", "a12b"), "12");
}

TEST(PosixClasses, UnknownOnesAreRefused) {
  for (const char* const name : {"punkt", "letter", "^alfa"}) {
    try {
      spell_out_posix_classes(std::string("[[:") + name + ":]]");
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(spell_out_posix_classes("[[:word2:]]"), "[[:word2:]]") << "no name of a class: characters";
}

}  // namespace
}  // namespace athanor::tests::posix_classes_test
