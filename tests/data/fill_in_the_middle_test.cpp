// Fill-in-the-middle: every document can be put together again, and the shares are those asked for.
#include "athanor/data/fill_in_the_middle.h"

#include <gmock/gmock.h>

#include <map>

#include "data/fakes.h"

namespace athanor::tests::fill_in_the_middle_test {
namespace {

// Bytes, and StarCoder's tokens behind them.
class FimTokenizer : public ByteTokenizer {
 public:
  std::optional<int32_t> id_of(std::string_view token) const override {
    if (token == "<fim_prefix>") return 300;
    if (token == "<fim_suffix>") return 301;
    if (token == "<fim_middle>") return 302;
    return ByteTokenizer::id_of(token);
  }
};

enum class Order : uint8_t { as_it_stands, psm, spm };
struct Parts {
  Order order = Order::as_it_stands;
  std::string text;               // put together again
  size_t prefix = 0, middle = 0;  // bytes; in SPM order only their sum is known
};

Parts undo(const std::vector<int32_t>& ids) {
  EXPECT_EQ(ids.back(), 256);
  std::string parts[3];  // behind PRE, SUF and MID
  int part = -1, last = -1;
  bool suffix_at_once = false;
  std::string text;
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    if (ids[i] >= 300) {
      part = ids[i] - 300;
      EXPECT_EQ(part, last + 1) << "the tokens come in one order";
      last = part;
      suffix_at_once |= part == 1 && ids[i - 1] == 300;
      continue;
    }
    (part < 0 ? text : parts[part]) += static_cast<char>(ids[i]);
  }
  if (part < 0) return {.text = text};
  EXPECT_EQ(part, 2);
  // An empty prefix in PSM order looks as SPM does, and is put together alike.
  if (suffix_at_once) return {.order = Order::spm, .text = parts[2] + parts[1]};
  return {.order = Order::psm,
          .text = parts[0] + parts[2] + parts[1],
          .prefix = parts[0].size(),
          .middle = parts[2].size()};
}

TEST(FillInTheMiddle, EveryDocumentCanBePutTogetherAgain) {
  const FimTokenizer tokenizer;
  const FillInTheMiddle fim(tokenizer, {.rate = 1.0, .spm_rate = 0.5});
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (int c = 0; c < i % 40; ++c) text += c % 3 == 0 ? "\u00e9" : c % 3 == 1 ? "\U0001F600" : "x";
    text += std::to_string(i);
    const Parts parts = undo(fim.encode_document(text));
    EXPECT_EQ(parts.text, text);
    EXPECT_NE(parts.order, Order::as_it_stands);
    for (const size_t cut : {parts.prefix, parts.prefix + parts.middle}) {  // no character is cut
      if (cut >= text.size()) continue;
      EXPECT_NE(static_cast<unsigned char>(text[cut]) & 0xC0, 0x80) << text;
    }
  }
  EXPECT_EQ(undo(fim.encode_document("")).text, "");
}

TEST(FillInTheMiddle, SharesAreThoseAskedFor) {
  const FimTokenizer tokenizer;
  const FillInTheMiddle fim(tokenizer, {.rate = 0.6, .spm_rate = 0.25});
  std::map<Order, int> orders;
  double prefix = 0, middle = 0;
  constexpr int kDocuments = 10'000, kBytes = 200;
  for (int i = 0; i < kDocuments; ++i) {
    std::string text = std::to_string(i);
    text.resize(kBytes, 'x');
    const Parts parts = undo(fim.encode_document(text));
    ++orders[parts.order];
    if (parts.order != Order::psm) continue;
    prefix += static_cast<double>(parts.prefix);
    middle += static_cast<double>(parts.middle);
  }
  EXPECT_NEAR(orders[Order::as_it_stands], 0.4 * kDocuments, 220);  // over four standard deviations
  EXPECT_NEAR(orders[Order::spm], 0.15 * kDocuments, 160);
  // Two places drawn evenly: each part is a third on average.
  EXPECT_NEAR(prefix / orders[Order::psm], kBytes / 3.0, 4);
  EXPECT_NEAR(middle / orders[Order::psm], kBytes / 3.0, 4);
}

TEST(FillInTheMiddle, ATokenizerWithoutItsTokensIsRefused) {
  const ByteTokenizer tokenizer;
  EXPECT_THAT(failure_of([&] { FillInTheMiddle(tokenizer, {}); }),
              ::testing::HasSubstr("the tokenizer has no tokens for prefix"));
}

}  // namespace
}  // namespace athanor::tests::fill_in_the_middle_test
