#include "athanor/text/trainers/bpe_trainer.h"

#include <algorithm>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::text::trainers {
namespace {

// A merge rescans the words that hold its pair, so an endless "word" (base64, a page without spaces) is cut.
constexpr size_t kMaxWordSymbols = 1024;
constexpr int64_t kProgressEvery = 64;
constexpr int64_t kMostReserved = int64_t{1} << 20;  // room for tokens that may never come

}  // namespace

BpeTrainer::BpeTrainer(std::vector<std::string> tokens, BpeTrainerOptions options)
    : options_(std::move(options)), tokens_(std::move(tokens)), lengths_(tokens_.size(), 1) {
  for (const std::string& token : tokens_)
    check(ids_.emplace(token, static_cast<int32_t>(ids_.size())).second,
          "bpe training: token '{}' stands twice", token);
}

void BpeTrainer::add_word(std::span<const int32_t> symbols, int64_t count) {
  while (!symbols.empty()) {
    const size_t size = std::min(symbols.size(), kMaxWordSymbols);
    check(words_.size() < WordLists::kMaxWords, "bpe training: {} different words are too many",
          words_.size());
    const auto word = static_cast<uint32_t>(words_.size());
    words_.push_back({symbols_.size(), static_cast<uint32_t>(size), count});
    symbols_.insert(symbols_.end(), symbols.begin(), symbols.begin() + static_cast<ptrdiff_t>(size));
    for (size_t i = 0; i + 1 < size; ++i) {
      Pair& pair = pairs_[pair_key(symbols[i], symbols[i + 1])];
      pair.count += count;
      lists_.add(pair.words, word);
    }
    symbols = symbols.subspan(size);
  }
}

void BpeTrainer::meet(Neighbours& side, int32_t token, uint32_t word, int64_t count) {
  Neighbour& neighbour = side.by_token[static_cast<size_t>(token)];
  if (neighbour.words == WordLists::kNone) side.met.push_back(token);
  neighbour.count += count;
  lists_.add(neighbour.words, word);
}

std::string BpeTrainer::joined(uint64_t pair) const {
  const std::string& right = tokens_[static_cast<size_t>(right_of(pair))];
  const std::string& prefix = options_.continuing_subword_prefix;
  return tokens_[static_cast<size_t>(left_of(pair))] +
         right.substr(right.starts_with(prefix) ? prefix.size() : 0);
}

void BpeTrainer::run(int64_t vocab_size, int64_t min_frequency,
                     const std::function<void(int64_t)>& progress) {
  ids_.reserve(static_cast<size_t>(std::min(vocab_size, kMostReserved)));
  pairs_.for_each([this](uint64_t pair, const Pair& info) { queue_.push({info.count, pair}); });
  while (static_cast<int64_t>(tokens_.size()) < vocab_size && !queue_.empty()) {
    const MergeCandidate top = queue_.pop();
    const int64_t count = pairs_.find(top.pair)->count;
    if (count != top.count) {
      // Other merges took some of it; where a pair grew, a newer entry is in the queue already.
      if (count > 0 && count < top.count) queue_.push({count, top.pair});
      continue;
    }
    if (count < std::max<int64_t>(min_frequency, 1)) break;
    const int64_t length =
        lengths_[static_cast<size_t>(left_of(top.pair))] + lengths_[static_cast<size_t>(right_of(top.pair))];
    if (options_.max_token_length > 0 && length > options_.max_token_length) continue;
    const std::string text = joined(top.pair);
    if (std::ranges::find(options_.forbidden, text) != options_.forbidden.end()) continue;
    // "a" + "bc" and "ab" + "c" make the same token: it keeps its first id, and both merges are learned.
    const auto [known, is_new] = ids_.emplace(text, static_cast<int32_t>(tokens_.size()));
    if (is_new) {
      tokens_.push_back(text);
      lengths_.push_back(length);
    }
    merges_.emplace_back(left_of(top.pair), right_of(top.pair));
    merge(top.pair, known->second);
    if (progress && static_cast<int64_t>(merges_.size()) % kProgressEvery == 0)
      progress(static_cast<int64_t>(tokens_.size()));
  }
}

// A pair stands beside few different tokens, so changes of counts are added up by token before the table of all pairs,
// which no cache holds, is looked up.
void BpeTrainer::merge(uint64_t pair, int32_t id) {
  before_.by_token.resize(tokens_.size());
  behind_.by_token.resize(tokens_.size());
  const std::vector<uint32_t> words = lists_.take(pairs_.find(pair)->words);
  for (size_t i = 0; i < words.size(); ++i) {
    constexpr size_t kAhead = 8;
    if (i + 2 * kAhead < words.size()) __builtin_prefetch(&words_[words[i + 2 * kAhead]]);
    if (i + kAhead < words.size()) __builtin_prefetch(&symbols_[words_[words[i + kAhead]].begin]);
    merge_in_word(words[i], pair, id);
  }
  const int32_t left = left_of(pair), right = right_of(pair);
  apply(
      before_, [left](int32_t token) { return pair_key(token, left); },
      [id](int32_t token) { return pair_key(token, id); });
  apply(
      behind_, [right](int32_t token) { return pair_key(right, token); },
      [id](int32_t token) { return pair_key(id, token); });
  pairs_.find(pair)->count = 0;
}

// Where a count shrinks after its push, the candidate is found to be out of date when it comes up.
template <typename OldPair, typename NewPair>
void BpeTrainer::apply(Neighbours& side, const OldPair& old_pair, const NewPair& new_pair) {
  for (size_t i = 0; i < side.met.size(); ++i) {
    constexpr size_t kAhead = 8;
    if (i + kAhead < side.met.size()) {
      pairs_.prefetch(old_pair(side.met[i + kAhead]));
      pairs_.prefetch(new_pair(side.met[i + kAhead]));
    }
    const int32_t token = side.met[i];
    Neighbour met = std::exchange(side.by_token[static_cast<size_t>(token)], {});
    pairs_[old_pair(token)].count -= met.count;
    Pair& grown = pairs_[new_pair(token)];
    grown.count += met.count;
    lists_.append(grown.words, met.words);
    if (grown.count > 0) queue_.push({grown.count, new_pair(token)});
  }
  side.met.clear();
}

void BpeTrainer::merge_in_word(uint32_t word_index, uint64_t pair, int32_t id) {
  Word& word = words_[word_index];
  int32_t* const symbols = symbols_.data() + word.begin;
  const int32_t left = left_of(pair), right = right_of(pair);
  uint32_t write = 0;
  while (write + 1 < word.size && (symbols[write] != left || symbols[write + 1] != right)) ++write;
  if (write + 1 >= word.size) return;  // earlier merges took it
  for (uint32_t read = write; read < word.size; ++write) {
    if (read + 1 == word.size || symbols[read] != left || symbols[read + 1] != right) {
      symbols[write] = symbols[read++];
      continue;
    }
    if (write > 0) meet(before_, symbols[write - 1], word_index, word.count);
    if (read + 2 < word.size) meet(behind_, symbols[read + 2], word_index, word.count);
    symbols[write] = id;
    read += 2;
  }
  word.size = write;
}

}  // namespace athanor::text::trainers
