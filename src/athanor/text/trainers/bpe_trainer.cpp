#include "athanor/text/trainers/bpe_trainer.h"

#include <algorithm>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::text::trainers {
namespace {

// A merge rescans the words that hold its pair, so an endless "word" (base64, a page without spaces) is cut.
constexpr size_t kMaxWordSymbols = 1024;
constexpr int64_t kProgressEvery = 64;

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
    check(words_.size() < UINT32_MAX, "bpe training: {} different words are too many", words_.size());
    const auto word = static_cast<uint32_t>(words_.size());
    words_.push_back({symbols_.size(), static_cast<uint32_t>(size), count});
    symbols_.insert(symbols_.end(), symbols.begin(), symbols.begin() + static_cast<ptrdiff_t>(size));
    for (size_t i = 0; i + 1 < size; ++i) {
      const uint64_t pair = pair_key(symbols[i], symbols[i + 1]);
      pairs_[pair].count += count;
      add_to_list(list_of(pair), word);
    }
    symbols = symbols.subspan(size);
  }
}

uint32_t BpeTrainer::list_of(uint64_t key) {
  Pair& pair = pairs_[key];
  if (pair.list == 0) {
    where_.emplace_back();
    pair.list = static_cast<uint32_t>(where_.size());
  }
  return pair.list;
}

void BpeTrainer::add_to_list(uint32_t list_number, uint32_t word) {
  auto& list = where_[list_number - 1];
  if (list.empty() || list.back() != word) list.push_back(word);
}

void BpeTrainer::meet(Neighbours& side, int32_t token, uint64_t new_pair, uint32_t word, int64_t count) {
  Neighbour& neighbour = side.by_token[static_cast<size_t>(token)];
  if (neighbour.list == 0) {
    neighbour.list = list_of(new_pair);
    side.met.push_back(token);
  }
  neighbour.count += count;
  add_to_list(neighbour.list, word);
}

std::string BpeTrainer::joined(uint64_t pair) const {
  const std::string& right = tokens_[static_cast<size_t>(right_of(pair))];
  const std::string& prefix = options_.continuing_subword_prefix;
  return tokens_[static_cast<size_t>(left_of(pair))] +
         right.substr(right.starts_with(prefix) ? prefix.size() : 0);
}

void BpeTrainer::run(int64_t vocab_size, int64_t min_frequency,
                     const std::function<void(int64_t)>& progress) {
  pairs_.for_each([this](uint64_t pair, const Pair& info) { queue_.push({info.count, pair}); });
  while (static_cast<int64_t>(tokens_.size()) < vocab_size && !queue_.empty()) {
    const Candidate top = queue_.top();
    queue_.pop();
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
  const std::vector<uint32_t> words = std::exchange(where_[pairs_.find(pair)->list - 1], {});
  for (size_t i = 0; i < words.size(); ++i) {
    constexpr size_t kAhead = 8;
    if (i + 2 * kAhead < words.size()) __builtin_prefetch(&words_[words[i + 2 * kAhead]]);
    if (i + kAhead < words.size()) __builtin_prefetch(&symbols_[words_[words[i + kAhead]].begin]);
    merge_in_word(words[i], pair, id);
  }
  const auto apply = [this](Neighbours& side, const auto& old_pair, const auto& new_pair) {
    for (const int32_t token : side.met) {
      Neighbour& neighbour = side.by_token[static_cast<size_t>(token)];
      pairs_[old_pair(token)].count -= neighbour.count;
      pairs_[new_pair(token)].count += neighbour.count;
      neighbour = {};
    }
  };
  const int32_t left = left_of(pair), right = right_of(pair);
  const auto before = [id](int32_t token) { return pair_key(token, id); };
  const auto behind = [id](int32_t token) { return pair_key(id, token); };
  apply(
      before_, [&](int32_t token) { return pair_key(token, left); }, before);
  apply(
      behind_, [&](int32_t token) { return pair_key(right, token); }, behind);
  pairs_.find(pair)->count = 0;
  const auto push = [this](uint64_t key) {
    if (const int64_t count = pairs_.find(key)->count; count > 0) queue_.push({count, key});
  };
  for (const int32_t token : std::exchange(before_.met, {})) push(before(token));
  for (const int32_t token : std::exchange(behind_.met, {})) push(behind(token));
}

void BpeTrainer::merge_in_word(uint32_t word_index, uint64_t pair, int32_t id) {
  Word& word = words_[word_index];
  int32_t* const symbols = symbols_.data() + word.begin;
  const int32_t left = left_of(pair), right = right_of(pair);
  uint32_t write = 0;
  for (uint32_t read = 0; read < word.size; ++write) {
    if (read + 1 == word.size || symbols[read] != left || symbols[read + 1] != right) {
      symbols[write] = symbols[read++];
      continue;
    }
    if (write > 0)
      meet(before_, symbols[write - 1], pair_key(symbols[write - 1], id), word_index, word.count);
    if (read + 2 < word.size)
      meet(behind_, symbols[read + 2], pair_key(id, symbols[read + 2]), word_index, word.count);
    symbols[write] = id;
    read += 2;
  }
  word.size = write;
}

}  // namespace athanor::text::trainers
