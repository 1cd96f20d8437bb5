// The components of a tokenizer.json one by one: what they make of a text, and the sentence for a bad file.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/text/normalizers/normalizer.h"
#include "athanor/text/pre_tokenizers/pre_tokenizer.h"

namespace athanor::tests::components_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

std::string normalize(const Json& normalizer, std::string text) {
  const text::JsonNode node(normalizer, "t", "normalizer");
  text::normalizers::parse_normalizer(node)->apply(text);
  return text;
}

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

TEST(Components, Nmt) {
  EXPECT_EQ(normalize({{"type", "Nmt"}},
                      "a\x01"
                      "b\x7F"
                      "c\xC2\x9F"
                      "d\xC2\x80"),
            "abcd\xC2\x80");
  EXPECT_EQ(normalize({{"type", "Nmt"}}, "a\tb\r\nc\u200Bd\u2581e\uFEFFf"), "a b  c d e f");
  EXPECT_EQ(normalize({{"type", "Nmt"}}, "\u00A0\xFF"), "\u00A0\xFF");
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
