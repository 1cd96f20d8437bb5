#include "athanor/data/objectives/masked_tokens.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "athanor/base/philox.h"
#include "athanor/data/channel.h"

namespace athanor::data {
namespace {

bool at(const std::vector<bool>& of_ids, int32_t id) {
  return static_cast<size_t>(id) < of_ids.size() && of_ids[static_cast<size_t>(id)];
}

// Numbers of one sequence, in the order in which they are drawn.
class Draws {
 public:
  Draws(uint64_t seed, const SequencePlace& place)
      : stream_(seed, fmt::format("masks/{}/{}", place.channel, place.epoch)),
        sequence_(static_cast<uint64_t>(place.sequence)) {}
  // Below `count`, each equally likely but for 2^-32 of them.
  int64_t below(int64_t count) {
    return static_cast<int64_t>(uint64_t{stream_.word(next_++, sequence_)} * static_cast<uint64_t>(count) >>
                                32);
  }
  double uniform() { return static_cast<double>(stream_.uniform(next_++, sequence_)); }

 private:
  RandomStream stream_;
  uint64_t sequence_, next_ = 0;
};

struct Word {
  size_t first, tokens;
};

}  // namespace

bool MaskedTokens::is_special(int32_t id) const {
  return at(options_.special, id);
}

bool MaskedTokens::continues(int32_t id) const {
  return at(options_.continues, id);
}

void MaskedTokens::apply(const SequencePlace& place, const SequenceRow& row) const {
  const auto filled = static_cast<size_t>(row.filled);
  std::vector<Word> words;
  int64_t places = 0;
  for (size_t i = 0; i < filled; ++i) {
    if (is_special(row.tokens[i])) continue;
    ++places;
    const bool goes_on =
        i > 0 && !words.empty() && words.back().first + words.back().tokens == i && continues(row.tokens[i]);
    if (goes_on)
      ++words.back().tokens;
    else
      words.push_back({i, 1});
  }
  std::fill(row.targets.begin(), row.targets.end(), kNoTarget);
  if (places == 0) return;
  const double wanted = std::nearbyint(options_.rate * static_cast<double>(places));
  int64_t left = std::max<int64_t>(1, static_cast<int64_t>(wanted));
  Draws draws(seed_, place);
  for (size_t next = 0; next < words.size() && left > 0; ++next) {
    const auto other = static_cast<size_t>(draws.below(static_cast<int64_t>(words.size() - next)));
    std::swap(words[next], words[next + other]);
    const Word& word = words[next];
    if (static_cast<int64_t>(word.tokens) > left) continue;
    left -= static_cast<int64_t>(word.tokens);
    for (size_t i = word.first; i < word.first + word.tokens; ++i) {
      row.targets[i] = row.tokens[i];
      const double share = draws.uniform();
      if (share < options_.random_rate)
        row.tokens[i] = static_cast<int32_t>(draws.below(options_.vocab_size));
      else if (share >= options_.random_rate + options_.keep_rate)
        row.tokens[i] = options_.mask_id;
    }
  }
}

std::string MaskedTokens::identity() const {
  return fmt::format("masked mask_id={} rate={} random={} keep={}{}", options_.mask_id, options_.rate,
                     options_.random_rate, options_.keep_rate,
                     options_.continues.empty() ? "" : " whole words");
}

std::vector<bool> continuing_tokens(const Tokenizer& tokenizer) {
  // The mark of a token that begins a word, by the kind of vocabulary; WordPiece marks the others.
  constexpr std::string_view kByteLevelSpace = "\u0120", kMetaspace = "\u2581", kWordPiece = "##";
  const auto vocab = static_cast<size_t>(tokenizer.vocab_size());
  std::vector<std::string> tokens(vocab);
  size_t with_space = 0, with_metaspace = 0, with_mark = 0;
  for (size_t id = 0; id < vocab; ++id) {
    tokens[id] = tokenizer.token_of(static_cast<int32_t>(id));
    with_space += static_cast<size_t>(tokens[id].starts_with(kByteLevelSpace));
    with_metaspace += static_cast<size_t>(tokens[id].starts_with(kMetaspace));
    with_mark += static_cast<size_t>(tokens[id].starts_with(kWordPiece));
  }
  const bool is_word_piece = with_mark > std::max(with_space, with_metaspace);
  const std::string_view begin = with_metaspace > with_space ? kMetaspace : kByteLevelSpace;
  std::vector<bool> continues(vocab, false);
  if (!is_word_piece && with_space + with_metaspace == 0) return continues;  // no words: characters, or bytes
  for (size_t id = 0; id < vocab; ++id)
    continues[id] = is_word_piece
                        ? tokens[id].starts_with(kWordPiece) && tokens[id].size() > kWordPiece.size()
                        : !tokens[id].empty() && !tokens[id].starts_with(begin);
  return continues;
}

}  // namespace athanor::data
