#include "athanor/data/fill_in_the_middle.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/hash.h"
#include "athanor/base/philox.h"

namespace athanor::data {
namespace {

struct Names {
  const char *prefix, *suffix, *middle;
};

constexpr std::array kNames = {
    Names{"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},        // StarCoder
    Names{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},  // Qwen 2.5, CodeGemma
    Names{"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},        // SantaCoder
    Names{"\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>"},           // Code Llama
    Names{"<\uff5cfim\u2581begin\uff5c>", "<\uff5cfim\u2581hole\uff5c>",
          "<\uff5cfim\u2581end\uff5c>"}};  // DeepSeek

// The byte where character `number` begins, or the end.
size_t byte_of(std::string_view text, int64_t number) {
  size_t at = 0;
  for (; at < text.size(); ++at)
    if ((static_cast<unsigned char>(text[at]) & 0xC0) != 0x80 && number-- == 0) break;
  return at;
}

}  // namespace

FillInTheMiddle::FillInTheMiddle(const Tokenizer& tokenizer, const FillInTheMiddleOptions& options)
    : tokenizer_(tokenizer), options_(options) {
  for (const Names& names : kNames) {
    const auto prefix = tokenizer.id_of(names.prefix), suffix = tokenizer.id_of(names.suffix),
               middle = tokenizer.id_of(names.middle);
    if (!prefix || !suffix || !middle) continue;
    prefix_ = *prefix, suffix_ = *suffix, middle_ = *middle;
    return;
  }
  throw ConfigError("fim_rate: the tokenizer has no tokens for prefix, suffix and middle of a text",
                    fmt::format("add special tokens such as {}, {} and {}", kNames[0].prefix,
                                kNames[0].suffix, kNames[0].middle));
}

std::vector<int32_t> FillInTheMiddle::encode_document(std::string_view text) const {
  // Words of the stream at the text's hash: whether, which order, where, where.
  const RandomStream stream(/*seed=*/0, "data.fill_in_the_middle");
  const Philox4 draws = stream.block(hash64(text), 0);
  const auto is_below = [](uint32_t word, double share) {
    return static_cast<double>(word) < share * 0x1p32;
  };
  if (!is_below(draws[0], options_.rate)) return tokenizer_.encode_document(text);
  const int64_t characters =
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  const auto place = [&](uint32_t word) {  // of characters + 1
    return static_cast<int64_t>((uint64_t{word} * static_cast<uint64_t>(characters + 1)) >> 32);
  };
  const auto [first, last] = std::minmax({place(draws[2]), place(draws[3])});
  const size_t from = byte_of(text, first), to = byte_of(text, last);
  const std::string_view before = text.substr(0, from), middle = text.substr(from, to - from),
                         after = text.substr(to);

  const SpecialTokens& special = tokenizer_.special_tokens();
  std::vector<int32_t> ids = special.before;
  const auto add = [&](std::string_view part) {
    const std::vector<int32_t> more = tokenizer_.encode_ordinary(part);
    ids.insert(ids.end(), more.begin(), more.end());
  };
  ids.push_back(prefix_);
  if (is_below(draws[1], options_.spm_rate)) {
    ids.push_back(suffix_);
    add(after);
    ids.push_back(middle_);
    add(before);
    add(middle);
  } else {
    add(before);
    ids.push_back(suffix_);
    add(after);
    ids.push_back(middle_);
    add(middle);
  }
  if (special.end) ids.push_back(*special.end);
  return ids;
}

std::string FillInTheMiddle::identity() const {
  return fmt::format("fill in the middle 1: {} {}", options_.rate, options_.spm_rate);
}

}  // namespace athanor::data
