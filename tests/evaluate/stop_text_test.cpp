// Stop strings, however the text is cut into pieces.
#include "athanor/evaluate/stop_text.h"

#include <gtest/gtest.h>

#include "athanor/base/error.h"

namespace athanor::tests::stop_text_test {
namespace {

struct Shown {
  std::string text;
  bool stopped;
  bool operator==(const Shown&) const = default;
};

// The text in pieces of so many bytes; nothing that is shown is taken back.
Shown shown(const std::vector<std::string>& stops, const std::string& text, size_t piece) {
  evaluate::StopText stop(stops);
  std::string out;
  for (size_t at = 0; at < text.size() && !stop.found(); at += piece) out += stop.add(text.substr(at, piece));
  out += stop.finish();
  return {out, stop.found().has_value()};
}

TEST(StopText, EndsTheTextBeforeTheFirstWhateverThePieces) {
  for (const size_t piece : {1, 2, 3, 5, 100}) {
    EXPECT_EQ(shown({"###"}, "a ## b ### c ###", piece), (Shown{"a ## b ", true})) << piece;
    EXPECT_EQ(shown({"###"}, "a ####", piece), (Shown{"a ", true})) << piece;
    EXPECT_EQ(shown({"\nUser:", "END"}, "one\nUse END", piece), (Shown{"one\nUse ", true})) << piece;
    EXPECT_EQ(shown({"abcd", "c"}, "xabcy", piece), (Shown{"xab", true})) << piece;
    EXPECT_EQ(shown({"abcd", "c"}, "xabcd", piece), (Shown{"x", true})) << piece;
    EXPECT_EQ(shown({"aab"}, "aaab", piece), (Shown{"a", true})) << piece;
    EXPECT_EQ(shown({"abcd", "bc"}, "abc", piece), (Shown{"a", true})) << piece;
    EXPECT_EQ(shown({"###"}, "a ##", piece), (Shown{"a ##", false})) << piece;
    EXPECT_EQ(shown({}, "a ##", piece), (Shown{"a ##", false})) << piece;
  }
}

TEST(StopText, HoldsBackOnlyWhatMayBeginAStop) {
  evaluate::StopText stop({"\n\nQ"});
  EXPECT_EQ(stop.add("yes\n"), "yes");
  EXPECT_EQ(stop.add("\n"), "");
  EXPECT_EQ(stop.add("\n"), "\n");
  EXPECT_EQ(stop.add("A"), "\n\nA");
  EXPECT_EQ(stop.add("\n\nQ: more"), "");
  EXPECT_TRUE(stop.found());
  EXPECT_EQ(stop.add("x"), "");
}

TEST(StopText, AnEmptyOneIsRefused) {
  EXPECT_THROW(evaluate::StopText({""}), ConfigError);
}

}  // namespace
}  // namespace athanor::tests::stop_text_test
