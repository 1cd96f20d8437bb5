// The text of patterns: one spelling for each, and one sentence for each mistake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "athanor/masks/pattern.h"

namespace athanor::tests::pattern_test {
namespace {

using ::testing::HasSubstr;

std::string text_of(std::string_view text) {
  return AttentionPattern::parse(text).text();
}

// The message and the hint of a refusal; "" where there is none.
template <typename Work>
std::string refusal(const Work& work) {
  try {
    work();
  } catch (const ConfigError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "";
}
std::string parse_refusal(std::string_view text) {
  return refusal([&] { AttentionPattern::parse(text); });
}
std::string fit_refusal(std::string_view text, const PatternShape& shape) {
  return refusal([&] { AttentionPattern::parse(text).check_fits(shape); });
}

TEST(PatternText, HasOneSpelling) {
  EXPECT_EQ(text_of("causal"), "causal");
  EXPECT_EQ(text_of("  band:256+causal "), "causal + band:256");
  EXPECT_EQ(text_of("global:1,0 + random:3,64 + block_band:64, 1"), "global:1 + block_band:64,1 + random:3");
  EXPECT_EQ(text_of("random:3,32 + global:0,2"), "global:0,2 + random:3,32");
  EXPECT_EQ(text_of("dilated:8,4 + dilated:8,2"), "dilated:8,2 + dilated:8,4");
  EXPECT_EQ(text_of("causal + full"), "causal");
  EXPECT_EQ(text_of("full"), "full");
  EXPECT_EQ(text_of("documents: 3,4 ,5"), "documents:3,4,5");
  EXPECT_EQ(text_of("heads 6,7,0-2, 3:causal;layers 0 heads 4-5 : band:3 ;window:9"),
            "heads 0-3,6-7: causal; layers 0 heads 4-5: band:3; window:9");
  EXPECT_EQ(text_of("heads 1 layers 2-2,0-1: causal; causal"), "layers 0-2 heads 1: causal; causal");
  for (const char* text :
       {"band:1 + causal", "heads 0-5: causal + band:256; heads 6-7: causal + dilated:128,2"})
    EXPECT_EQ(text_of(text_of(text)), text_of(text));
}

TEST(PatternText, SaysWhatIsCausal) {
  for (const char* text : {"causal", "causal + band:9 + global:4,4", "window:8", "causal + random:2",
                           "chunk:9 + window:3", "heads 0: window:4; causal + strided:8"})
    EXPECT_TRUE(AttentionPattern::parse(text).is_causal()) << text;
  for (const char* text : {"full", "band:1", "prefix:4", "chunk:8", "window:8 + global:1",
                           "prefix:3 + band:4", "heads 0: causal; band:3", "documents:7"})
    EXPECT_FALSE(AttentionPattern::parse(text).is_causal()) << text;
  EXPECT_TRUE(AttentionPattern::parse("layers 0: causal; full + causal").is_plain_causal());
  EXPECT_FALSE(AttentionPattern::parse("window:8").is_plain_causal());
  EXPECT_TRUE(AttentionPattern::parse("causal + documents:7").has_documents());
  EXPECT_FALSE(AttentionPattern::parse("causal").has_documents());
}

TEST(PatternText, RefusesEachMistakeInASentence) {
  const auto expect = [](std::string_view text, const std::vector<std::string>& words) {
    const std::string got = parse_refusal(text);
    EXPECT_THAT(got, HasSubstr("attention pattern")) << text;
    for (const std::string& word : words) EXPECT_THAT(got, HasSubstr(word)) << text;
  };
  expect("", {"empty section"});
  expect("causal;", {"empty section"});
  expect("causal +", {"empty term"});
  expect("heads 0: ", {"empty term"});
  expect("bnad:3", {"'bnad:3'", "did you mean 'band'?", "window:W"});
  expect("casual + band:3", {"did you mean 'causal'?"});
  expect("head 0: causal", {"did you mean 'heads'?"});
  expect("band", {"'band'", "got 0 numbers, expected band:w"});
  expect("band:1,2", {"'band:1,2'", "got 2 numbers, expected band:w"});
  expect("dilated:4", {"got 1 number, expected dilated:w,d"});
  expect("causal:3", {"got 1 number, expected causal"});
  expect("global:1,2,3", {"got 3 numbers, expected global:n[,m]"});
  expect("documents", {"documents:l1,l2,..."});
  for (const char* number :
       {"0", "-1", "+1", "x", "1.5", "1e3", "0x10", "", "1 2", "1073741825", "99999999999999999999"})
    expect(std::string("band:") + number, {"expected a whole number from 1 to 1,073,741,824"});
  expect("documents:3,0", {"got '0'"});
  expect("random:1,0", {"random:1,0"});
  expect("global:0", {"expected at least one position"});
  expect("global:0,0", {"expected at least one position"});
  expect("fixed:4,5", {"got 4,5, expected c of at most s"});
  expect("causal + causal", {"expected causal once"});
  expect("band:3 + band:4", {"got band:3 and band:4, expected band once"});
  expect("strided:3 + strided:3", {"expected strided once"});
  expect("causal + prefix:4", {"causal beside prefix:4", "without effect"});
  expect("full + band:3", {"full"});
  expect("band:3 causal", {"'3 causal'"});
  expect("causal band:3", {"behind causal"});
  expect("heads: causal", {"heads"});
  expect("heads 3-1: causal", {"got heads '3-1'"});
  expect("heads 0,,1: causal", {"got heads ''"});
  expect("heads a: causal", {"got heads 'a'"});
  expect("heads -1: causal", {"got heads '-1'"});
  expect("heads 1-2-3: causal", {"got heads '1-2-3'"});
  expect("heads 0", {"no ':'"});
  expect("heads 0 heads 1: causal", {"got heads twice"});
  expect("heads 0 rows 1: causal", {"heads"});
  expect("causal; heads 1: band:3", {"never used", "leaves"});
  expect("heads 0-5: causal; layers 2 heads 1-3: band:3", {"never used"});
  expect("band:3\x1b[31m", {"?[31m"});
}

TEST(PatternText, RefusesWhatDoesNotFitAModel) {
  const PatternShape shape{.length = 128, .layers = 2, .heads = 4};
  EXPECT_EQ(fit_refusal("causal + window:128", shape), "");
  EXPECT_EQ(fit_refusal("band:127 + global:127", shape), "");
  EXPECT_EQ(fit_refusal("layers 0: causal; layers 1 heads 0-3: band:4", shape), "");
  const auto expect = [&](std::string_view text, const std::vector<std::string>& words) {
    const std::string got = fit_refusal(text, shape);
    for (const std::string& word : words) EXPECT_THAT(got, HasSubstr(word)) << text;
  };
  for (const char* term :
       {"band:128", "window:129", "dilated:64,2", "chunk:129", "global:128", "global:64,64", "prefix:129",
        "block:129", "block_band:64,2", "random:3", "strided:128", "fixed:129,1", "documents:100,28,3"})
    expect(term, {std::string(term) + ": got a sequence of 128 positions, expected at least "});
  expect("dilated:64,2", {"at least 129"});
  expect("heads 0-2: causal", {"no section for head 3 of layer 0"});
  expect("layers 0: causal", {"no section for head 0 of layer 1"});
  expect("heads 0-4: causal", {"got heads 0-4 of a model of 4, expected numbers from 0 to 3"});
  expect("layers 2: band:3; causal", {"got layers 2 of a model of 2"});
  expect("heads 0-1: causal; heads 2-3: causal; band:3", {"'band:3'", "never used"});
  expect("causal + global:0,1", {"a query that sees no key, the one at position 0 of 128"});
  expect("heads 0: causal; chunk:50 + global:1",
         {"'chunk:50 + global:1'", "position 50 of 128", "layer 0, head 1"});
  EXPECT_EQ(fit_refusal("causal + random:1", shape), "");
  EXPECT_EQ(fit_refusal("band:3 + random:1,16", shape), "");
  // What the last position sees is shown to the others of its block, so that they draw nothing, and hidden as later.
  EXPECT_THAT(fit_refusal("causal + global:0,1 + random:1", shape), HasSubstr("position 64 of 128"));
  // A block drawn for 16 queries may lie in the chunk of some of them alone.
  EXPECT_THAT(fit_refusal("chunk:24 + random:1,16", shape), HasSubstr("sees no key"));
  EXPECT_THROW(mask_of(AttentionPattern::parse("causal"),
                       {.positions = {{{0, 9}}, {{0, 8}}}, .length = 8, .heads = 1}, 0),
               Error);
}

}  // namespace
}  // namespace athanor::tests::pattern_test
