// The components of a tokenizer.json one by one: what they make of a text, and the sentence for a bad file.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/text/normalized_text.h"
#include "athanor/text/normalizers/normalizer.h"
#include "athanor/text/pre_tokenizers/pre_tokenizer.h"
#include "athanor/text/tokenizer.h"
#include "athanor/text/unicode.h"

namespace athanor::tests::components_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

std::string normalize(const Json& normalizer, std::string_view text) {
  const text::JsonNode node(normalizer, "t", "normalizer");
  return text::normalizers::parse_normalizer(node)->applied(text);
}

Words split(const Json& pre_tokenizer, std::string_view text) {
  const text::JsonNode node(pre_tokenizer, "t", "pre_tokenizer");
  Words words;
  text::pre_tokenizers::parse_pre_tokenizer(node)->split(
      {.text = text, .at_start = true},
      [&](text::pre_tokenizers::Piece piece) { words.emplace_back(piece.text); });
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

TEST(Components, StripAccentsDropsMarksOfAllKinds) {
  const Json strip = {{"type", "StripAccents"}};
  EXPECT_EQ(normalize(strip, "e\u0301 \u0915\u093E\u093F 1\u20E3"), "e \u0915 1");
  const Json bert = {{"type", "BertNormalizer"}};
  EXPECT_EQ(normalize(bert, "e\u0301 \u0915\u093E\u093F 1\u20E3"), "e \u0915\u093E\u093F 1\u20E3");
}

TEST(Components, BertKeepsUnassignedCharacters) {
  const Json bert = {{"type", "BertNormalizer"}};
  EXPECT_EQ(normalize(bert, "a\U0001FAFF\U000E0FFFb"), "a\U0001FAFF\U000E0FFFb");
  EXPECT_EQ(normalize(bert,
                      "a\u00AD\u200B\uE000\uFFFD\x01"
                      "b"),
            "ab");
}

TEST(Components, BertSetsIdeographsApart) {
  const Json bert = {{"type", "BertNormalizer"}};
  EXPECT_EQ(normalize(bert, "a\u4F60b"), "a \u4F60 b");
  EXPECT_EQ(normalize(bert, "a\U0002B81Db\U0002B920c"), "a \U0002B81D b \U0002B920 c");
  EXPECT_EQ(normalize(bert, "a\U0002B820b\U0002B91Fc"), "a\U0002B820b\U0002B91Fc");
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

// A little-endian number of four bytes.
std::string word(uint32_t value) {
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(value >> shift & 0xFF));
  return bytes;
}

std::string to_base64(const std::string& bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (at + i < bytes.size() ? static_cast<uint8_t>(bytes[at + i]) : 0);
    for (size_t i = 0; i < 4; ++i)
      text.push_back(at + i <= bytes.size() ? kDigits[bits >> (18 - 6 * i) & 63] : '=');
  }
  return text;
}

// The bytes of a map. Every node of its trie has a block of 256 units.
std::string char_map(const std::vector<std::pair<std::string, std::string>>& replaced) {
  constexpr uint32_t kHasValue = 1u << 8, kIsValue = 1u << 31;
  std::map<std::string, uint32_t> nodes = {{"", 1}};  // block 0 holds the root's unit alone
  for (const auto& [key, value] : replaced)
    for (size_t size = 1; size <= key.size(); ++size)
      nodes.emplace(key.substr(0, size), static_cast<uint32_t>(nodes.size() + 1));
  std::vector<uint32_t> units(256 * (nodes.size() + 1));
  units[0] = 256u << 10;
  for (const auto& [key, node] : nodes) {
    if (key.empty()) continue;
    const uint32_t label = static_cast<uint8_t>(key.back());
    const uint32_t at = 256 * nodes.at(key.substr(0, key.size() - 1)) ^ label;
    units[at] = (at ^ 256 * node) << 10 | label;
  }
  std::string strings;
  for (const auto& [key, value] : replaced) {
    const uint32_t label = static_cast<uint8_t>(key.back());
    units[256 * nodes.at(key.substr(0, key.size() - 1)) ^ label] |= kHasValue;
    units[256 * nodes.at(key)] = kIsValue | static_cast<uint32_t>(strings.size());
    strings += value;
    strings.push_back('\0');
  }
  std::string bytes = word(static_cast<uint32_t>(4 * units.size()));
  for (const uint32_t unit : units) bytes += word(unit);
  bytes += strings;
  return bytes;
}

Json precompiled(const std::string& bytes) {
  return {{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(bytes)}};
}

TEST(Components, PrecompiledReplacesClustersAndCharacters) {
  const Json map = precompiled(char_map({{"\uFB01", "fi"},
                                         {"\uFF21", "A"},
                                         {"A\u030A", "\u00C5"},
                                         {"\u200B", ""},
                                         {"\r", " "},
                                         {"\u0301", "'"}}));
  EXPECT_EQ(normalize(map, "\uFB01n \uFF21 \u4F60"), "fin A \u4F60");
  EXPECT_EQ(normalize(map, "A\u030A"), "\u00C5");
  EXPECT_EQ(normalize(map, "a\u200Bb"), "ab");
  // A short cluster is replaced by what its first characters are; a longer one character by character.
  EXPECT_EQ(normalize(map, "\uFB01\u0301n"), "fin");
  EXPECT_EQ(normalize(map, "a\r\nb"), "a b");
  EXPECT_EQ(normalize(map, "\uFB01\u0301\u0301"), "fi''");
  EXPECT_EQ(normalize(map, "A\u030A\u0301\u0301"), "A\u030A''");
  EXPECT_EQ(normalize(map, "\xFF\xEF\xAC"), "\xFF\xEF\xAC");
  EXPECT_EQ(normalize(map, ""), "");
  // A shorter key hides a longer one.
  EXPECT_EQ(normalize(precompiled(char_map({{"A", "a"}, {"A\u030A", "x"}})), "A\u030A"), "a");
}

// SentencePiece takes the longest key wherever it stands, and what follows it stays.
TEST(Components, PrecompiledOfASentencePieceModelKnowsNoClusters) {
  Json map = precompiled(char_map({{"\u3000", " "}, {"A", "a"}, {"A\u030A", "x"}, {"\x01", ""}}));
  EXPECT_EQ(normalize(map, "\u3000\u035E A\u030A\x01n"), "  an");
  map["like_sentencepiece"] = true;
  EXPECT_EQ(normalize(map, "\u3000\u035E A\u030A\x01n"), " \u035E xn");
  EXPECT_EQ(normalize(map, "\xFF\xE3\x80"), "\xFF\xE3\x80");
}

// As Hugging Face's library says for each of these texts: what is left out behind a character that was put in shifts that
// one, and what is left out at the start shifts all that follows.
TEST(Components, PrecompiledSaysWhereCharactersCameFrom) {
  const Json map =
      precompiled(char_map({{"\uFFE3", " \u0304"}, {"\uFB01", "fi"}, {"\x01", ""}, {"\x02", ""}}));
  using Ranges = std::vector<std::pair<int64_t, int64_t>>;  // in characters
  const auto begun_before = [](const std::string& given, size_t byte) {
    int64_t count = 0;
    for (size_t at = 0; at < byte; at += text::decode_utf8(given, at).size) ++count;
    return count;
  };
  const auto origins = [&](const std::string& given) {
    text::NormalizedText text({.text = given, .at_start = true, .traced = true});
    const text::JsonNode node(map, "t", "normalizer");
    text::normalizers::parse_normalizer(node)->apply(text);
    Ranges ranges;
    for (size_t at = 0; at < text.text().size();) {
      const size_t size = text::decode_utf8(text.text(), at).size;
      const text::TextRange range = text.piece(true).range(at, at + size);
      ranges.emplace_back(begun_before(given, range.begin), begun_before(given, range.end));
      at += size;
    }
    return ranges;
  };
  EXPECT_EQ(origins("m\uFFE3\x01z"), (Ranges{{0, 1}, {1, 2}, {2, 3}, {3, 4}}));
  EXPECT_EQ(origins("\uFB01\x01\x02zm"), (Ranges{{0, 1}, {1, 2}, {3, 4}, {4, 5}}));
  EXPECT_EQ(origins("n\x01\x02zm"), (Ranges{{0, 1}, {3, 4}, {4, 5}}));
  EXPECT_EQ(origins("\x01zm"), (Ranges{{0, 1}, {1, 2}}));
  EXPECT_EQ(origins("\x01\x02mnz"), (Ranges{{0, 1}, {1, 2}, {2, 3}}));
  EXPECT_EQ(origins("\x01"), Ranges{});
}

// SentencePiece gives a user's piece 0.1 less than nothing, however likely its ordinary pieces are.
TEST(Components, PiecesOfAUserWeighAsInSentencePiece) {
  const std::string file =
      R"({"version": "1.0", "model": {"type": "Unigram", "unk_id": 0, "like_sentencepiece": true,
    "own_pieces": [3], "not_in_text": [], "vocab": [["<unk>", 0], ["a", -1], ["b", -1], ["ab", 0]]}})";
  EXPECT_EQ(Tokenizer::parse(file, "t")->encode("abba"), (std::vector<int32_t>{3, 2, 1}));
}

TEST(Components, PrecompiledRefusesBadMaps) {
  const std::string good = char_map({{"x", "y"}});
  const auto error = [](const Json& node) { return error_of([&] { normalize(node, "x"); }); };
  EXPECT_EQ(error(precompiled(good)), "no error");
  const std::string name = "t: normalizer.precompiled_charsmap: ";
  for (const char* text : {"A", "AA=A", "AAA*", "AAAAA===", "AB=="})
    EXPECT_EQ(error({{"type", "Precompiled"}, {"precompiled_charsmap", text}}), name + "is not base64")
        << text;
  EXPECT_NE(error(precompiled(good.substr(0, 3000))).find(name + "got a map of 3000 bytes that is cut short"),
            std::string::npos);
  for (const char* empty : {"", "AAAAAA=="})
    EXPECT_NE(error({{"type", "Precompiled"}, {"precompiled_charsmap", empty}}).find("cut short"),
              std::string::npos);
  EXPECT_EQ(error(precompiled(good.substr(0, good.size() - 1))),
            name + "the last replacement of the map is cut short");
  std::string bad = good;
  bad[bad.size() - 2] = '\xFF';
  EXPECT_EQ(error(precompiled(bad)), name + "the replacements of the map are not UTF-8");
  bad = good;
  bad.replace(4 + 4 * (256 + 'x'), 4, word(0x7FFFFC00 | 'x'));
  EXPECT_EQ(error(precompiled(bad)), name + "the trie of the map points outside itself");
  bad = good;
  bad.replace(4 + 4 * 512, 4, word(1u << 31 | 2));
  EXPECT_EQ(error(precompiled(bad)), name + "the trie of the map points behind its replacements");
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

TEST(Components, UnicodeScripts) {
  const auto scripts = [](std::string_view text) { return split({{"type", "UnicodeScripts"}}, text); };
  // The library's own examples: kana and ideographs are one, a space goes with what is before it.
  EXPECT_EQ(scripts("どこで生れ。Yes"), (Words{"どこで生れ", "。", "Yes"}));
  EXPECT_EQ(scripts("Apples are りんご 林檎"), (Words{"Apples are ", "りんご 林檎"}));
  EXPECT_EQ(scripts("ラーメン1ー"), (Words{"ラーメン", "1", "ー"}));
  EXPECT_EQ(scripts("  a  "), (Words{"a  "})) << "spaces before the first script are left out";
  EXPECT_EQ(scripts("   "), Words{});
  EXPECT_EQ(scripts("e\u0301a\n"), (Words{"e", "\u0301", "a", "\n"})) << "inherited is a script of its own";
  EXPECT_EQ(scripts("a\U0001FAE0b中"), (Words{"a\U0001FAE0b", "中"})) << "not assigned in Unicode 9.0";
  EXPECT_EQ(scripts("a\xFF 1"), (Words{"a", "\xFF 1"})) << "a byte that is not UTF-8 counts as U+FFFD";
}

}  // namespace
}  // namespace athanor::tests::components_test
