// Character tokenizer: one id per code point. It is written as BPE without merges, since that model cuts text
// into single code points by itself and gives every unknown one its own <unk>.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/text/trainers/train_types.h"

namespace athanor::text::trainers {
namespace {
constexpr const char* kCharUnk = "<unk>";
}

std::string train_char(const WordCounts& counts, const TokenizerTrainerOptions& options) {
  std::vector<std::string> tokens = options.special_tokens;
  if (std::ranges::count(tokens, kCharUnk) == 0) tokens.emplace_back(kCharUnk);
  const TokenIds special = number(tokens);
  TokenIds vocab = special;
  std::vector<std::string> chars;
  counts.for_each([&](std::string_view c, int64_t) { chars.emplace_back(c); });
  std::ranges::sort(chars);  // bytes of UTF-8 sort as code points do
  for (const std::string& c : chars) {
    check_not_special(c, options);
    vocab.emplace_back(c, vocab.size());
  }
  if (options.vocab_size > 0 && options.vocab_size < static_cast<int64_t>(vocab.size()))
    throw ConfigError(
        fmt::format("vocab_size: got {}, expected at least {}: the text has {} different characters "
                    "and there are {} special tokens",
                    options.vocab_size, vocab.size(), chars.size(), special.size()),
        "leave it out to get as many ids as there are characters");
  OrderedJson file = tokenizer_json(special);
  file["normalizer"] = normalizer_of(options);
  file["model"] = bpe_json(vocab, {});
  file["model"]["unk_token"] = kCharUnk;
  file["decoder"] = {{"type", "Fuse"}};
  return to_text(file);
}

}  // namespace athanor::text::trainers
