// The components of a tokenizer.json one by one: what they make of a text, and the sentence for a bad file.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/text/pre_tokenizers/pre_tokenizer.h"

namespace athanor::tests::components_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

Words split(const Json& pre_tokenizer, std::string_view text) {
  const text::JsonNode node(pre_tokenizer, "t", "pre_tokenizer");
  Words words;
  text::pre_tokenizers::parse_pre_tokenizer(node)->split(
      {text, true}, [&](text::pre_tokenizers::Piece piece) { words.emplace_back(piece.text); });
  return words;
}

// What the file fails with.
template <typename Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Components, FixedLength) {
  EXPECT_EQ(split({{"type", "FixedLength"}, {"length", 3}}, "Hello \U0001F44B world"),
            (Words{"Hel", "lo ", "\U0001F44B w", "orl", "d"}));
  EXPECT_EQ(split({{"type", "FixedLength"}}, "Hello world"), (Words{"Hello", " worl", "d"}));
  EXPECT_EQ(split({{"type", "FixedLength"}}, ""), Words{});
  EXPECT_EQ(error_of([] {
              split({{"type", "FixedLength"}, {"length", 0}}, "a");
            }),
            "t: pre_tokenizer.length: got 0, expected at least 1");
}

}  // namespace
}  // namespace athanor::tests::components_test
