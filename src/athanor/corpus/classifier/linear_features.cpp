#include <fmt/core.h>

#include <array>

#include "athanor/base/error.h"
#include "athanor/base/hash.h"
#include "athanor/corpus/classifier/linear_model.h"
#include "athanor/corpus/perplexity/ngram_table.h"
#include "athanor/corpus/perplexity/ngram_words.h"
#include "athanor/text/unicode.h"

namespace athanor::corpus::classifier {
namespace {

constexpr int64_t kMostFeatureWords = 5, kMostFeatureCharacters = 8;
constexpr uint64_t kCharacterSeed = 3;  // so that a run of characters is not taken for a word

void check_feature_option(const char* name, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    throw base::ConfigError(
        fmt::format("classifier.{}: got {}, expected a value from {} to {}", name, value, least, most));
}

// The runs of `size` characters of "\x02word\x03"; the whole where it is shorter.
template <typename Take>
void for_each_run(std::string_view word, size_t size, std::string& marked, std::vector<size_t>& starts,
                  Take take) {
  marked.assign(1, '\x02').append(word).push_back('\x03');
  starts.clear();
  for (size_t at = 0; at < marked.size(); at += text::decode_utf8(marked, at).size) starts.push_back(at);
  starts.push_back(marked.size());
  const size_t characters = starts.size() - 1;
  if (characters <= size) return take(std::string_view(marked));
  for (size_t i = 0; i + size <= characters; ++i)
    take(std::string_view(marked).substr(starts[i], starts[i + size] - starts[i]));
}

}  // namespace

void check_options(const FeatureOptions& options) {
  check_feature_option("bits", options.bits, 10, 24);
  check_feature_option("words", options.words, 1, kMostFeatureWords);
  check_feature_option("characters", options.characters, 0, kMostFeatureCharacters);
}

std::vector<uint32_t> features_of(std::string_view text, const FeatureOptions& options) {
  std::vector<uint32_t> features;
  const int shift = 64 - static_cast<int>(options.bits);
  const auto longest = static_cast<size_t>(options.words);
  const auto add = [&](uint64_t key) { features.push_back(static_cast<uint32_t>(key >> shift)); };
  std::array<uint64_t, kMostFeatureWords> last{};  // hashes, the newest first
  size_t count = 0;
  std::string marked;
  std::vector<size_t> starts;
  perplexity::for_each_ngram_word(text, options.lowercase, [&](std::string_view word) {
    for (size_t i = longest - 1; i > 0; --i) last[i] = last[i - 1];
    last[0] = base::hash64(word);
    if (count < longest) ++count;
    uint64_t key = last[0];
    add(key);
    for (size_t size = 2; size <= count; ++size) {
      key = perplexity::longer_ngram_key(key, last[size - 1]);
      add(key);
    }
    if (options.characters > 0 && word != perplexity::kEndOfLineWord)
      for_each_run(word, static_cast<size_t>(options.characters), marked, starts,
                   [&](std::string_view run) { add(base::hash64(run, kCharacterSeed)); });
  });
  return features;
}

}  // namespace athanor::corpus::classifier
