#include "athanor/text/trainers/unigram_trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "athanor/text/unicode.h"

namespace athanor::text::trainers {
namespace {

// The constants of the paper's own implementation (SentencePiece).
constexpr size_t kMaxSeeds = 1'000'000;
constexpr int kFitsPerRound = 2;
constexpr double kMinExpected = 0.5;
constexpr double kKeepPerRound = 0.75;
constexpr double kLastRound = 1.1;  // times the wanted size
constexpr int64_t kNumBlocks = 16;  // of words, whatever the number of threads

constexpr int32_t kNone = -1;

// The derivative of log gamma, by recurrence up to where its asymptotic series is exact enough.
double digamma(double x) {
  double result = 0;
  while (x < 7) result -= 1 / x++;
  x -= 0.5;
  const double y = 1 / (x * x);
  return result + std::log(x) + y * (1.0 / 24 - y * (7.0 / 960 - y * (31.0 / 8064 - y * 127.0 / 30720)));
}

double log_sum(double a, double b) {
  if (a < b) std::swap(a, b);
  return std::isinf(b) ? a : a + std::log1p(std::exp(b - a));
}

std::pair<size_t, size_t> block_of(int64_t block, size_t size) {
  const auto at = [&](int64_t b) { return size * static_cast<size_t>(b) / kNumBlocks; };
  return {at(block), at(block + 1)};
}

}  // namespace

UnigramTrainer::UnigramTrainer(std::vector<CountedWord> words, int64_t num_pieces, int num_threads,
                               int64_t max_piece_chars)
    : words_(std::move(words)), num_pieces_(static_cast<size_t>(num_pieces)), pool_(num_threads) {
  std::ranges::sort(words_, {}, &CountedWord::text);  // sums of floating-point numbers depend on the order
  std::vector<ScoredPiece> seeds = frequent_substrings(words_, kMaxSeeds, max_piece_chars);
  double total = 0;
  for (const ScoredPiece& seed : seeds) total += seed.score;
  for (ScoredPiece& seed : seeds) seed.score = std::log(seed.score / total);
  set_pieces(std::move(seeds));
}

void UnigramTrainer::set_pieces(std::vector<ScoredPiece> pieces) {
  pieces_ = std::move(pieces);
  trie_ = {};
  is_char_.assign(pieces_.size(), false);
  for (size_t i = 0; i < pieces_.size(); ++i) {
    trie_.add(pieces_[i].text, static_cast<int32_t>(i));
    is_char_[i] = decode_utf8(pieces_[i].text, 0).size == pieces_[i].text.size();
  }
}

std::vector<ScoredPiece> UnigramTrainer::run(const std::function<void(int64_t)>& progress) {
  while (true) {
    for (int i = 0; i < kFitsPerRound; ++i) fit();
    if (progress) progress(static_cast<int64_t>(pieces_.size()));
    if (static_cast<double>(pieces_.size()) <= kLastRound * static_cast<double>(num_pieces_)) break;
    const size_t before = pieces_.size();
    prune();
    if (pieces_.size() == before) break;
  }
  std::vector<size_t> order(pieces_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    if (is_char_[a] != is_char_[b]) return static_cast<bool>(is_char_[a]);
    if (pieces_[a].score != pieces_[b].score) return pieces_[a].score > pieces_[b].score;
    return pieces_[a].text < pieces_[b].text;
  });
  if (order.size() > num_pieces_) order.resize(num_pieces_);
  std::vector<ScoredPiece> result;
  for (const size_t i : order) result.push_back(pieces_[i]);
  std::ranges::stable_sort(result, std::greater<>(), &ScoredPiece::score);
  return result;
}

// Adds, for every piece, its expected number of occurrences in the word over all splits (forward-backward algorithm).
void UnigramTrainer::add_expected(const CountedWord& word, std::vector<double>& counts) const {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  struct Edge {
    size_t begin, end;
    int32_t piece;
  };
  const size_t size = word.text.size();
  std::vector<Edge> edges;
  std::vector<double> forward(size + 1, kNever), backward(size + 1, kNever);
  forward[0] = backward[size] = 0;
  for (size_t at = 0; at < size; ++at) {
    if (forward[at] == kNever) continue;
    trie_.for_each_prefix(word.text, at, [&](size_t end, int32_t piece) {
      edges.push_back({at, end, piece});
      forward[end] = log_sum(forward[end], forward[at] + pieces_[static_cast<size_t>(piece)].score);
    });
  }
  for (auto edge = edges.rbegin(); edge != edges.rend(); ++edge)
    backward[edge->begin] =
        log_sum(backward[edge->begin], backward[edge->end] + pieces_[static_cast<size_t>(edge->piece)].score);
  for (const Edge& edge : edges) {
    const auto piece = static_cast<size_t>(edge.piece);
    counts[piece] += static_cast<double>(word.count) * std::exp(forward[edge.begin] + pieces_[piece].score +
                                                                backward[edge.end] - forward[size]);
  }
}

std::vector<double> UnigramTrainer::expected_counts() const {
  std::vector<std::vector<double>> parts(kNumBlocks);
  pool_.parallel_for(kNumBlocks, [&](int64_t block) {
    std::vector<double>& counts = parts[static_cast<size_t>(block)];
    counts.resize(pieces_.size());
    const auto [begin, end] = block_of(block, words_.size());
    for (size_t w = begin; w < end; ++w) add_expected(words_[w], counts);
  });
  std::vector<double> counts(pieces_.size());
  for (const auto& part : parts)
    for (size_t i = 0; i < counts.size(); ++i) counts[i] += part[i];
  return counts;
}

void UnigramTrainer::fit() {
  const std::vector<double> expected = expected_counts();
  std::vector<ScoredPiece> kept;
  double total = 0;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (expected[i] < kMinExpected && !is_char_[i]) continue;
    kept.push_back({std::move(pieces_[i].text), std::max(expected[i], kMinExpected)});
    total += kept.back().score;
  }
  const double log_total = digamma(total);
  for (ScoredPiece& piece : kept) piece.score = digamma(piece.score) - log_total;
  set_pieces(std::move(kept));
}

void UnigramTrainer::best_cut(std::string_view word, int32_t forbidden, std::vector<int32_t>& ids) const {
  struct Node {
    double score = -std::numeric_limits<double>::infinity();
    size_t begin = 0;
    int32_t piece = kNone;
  };
  std::vector<Node> best(word.size() + 1);
  best[0].score = 0;
  for (size_t at = 0; at < word.size(); ++at) {
    if (std::isinf(best[at].score)) continue;
    trie_.for_each_prefix(word, at, [&](size_t end, int32_t piece) {
      const double score = best[at].score + pieces_[static_cast<size_t>(piece)].score;
      if (piece != forbidden && score > best[end].score) best[end] = {score, at, piece};
    });
  }
  ids.clear();
  for (size_t end = word.size(); end > 0; end = best[end].begin) ids.push_back(best[end].piece);
}

// Removes the pieces whose removal lowers the likelihood of the words least. Each use of a removed piece would be
// replaced by the best split of its text into other pieces.
void UnigramTrainer::prune() {
  struct Uses {
    std::vector<int64_t> tokens, words;  // by piece, in the best cuts of all words
  };
  std::vector<Uses> parts(kNumBlocks);
  pool_.parallel_for(kNumBlocks, [&](int64_t block) {
    Uses& uses = parts[static_cast<size_t>(block)];
    uses.tokens.resize(pieces_.size());
    uses.words.resize(pieces_.size());
    std::vector<int32_t> ids;
    const auto [begin, end] = block_of(block, words_.size());
    for (size_t w = begin; w < end; ++w) {
      best_cut(words_[w].text, kNone, ids);
      for (const int32_t id : ids) uses.tokens[static_cast<size_t>(id)] += words_[w].count;
      std::ranges::sort(ids);
      ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
      for (const int32_t id : ids) uses.words[static_cast<size_t>(id)] += words_[w].count;
    }
  });
  std::vector<double> tokens(pieces_.size()), words(pieces_.size());
  for (const Uses& uses : parts)
    for (size_t i = 0; i < pieces_.size(); ++i) {
      tokens[i] += static_cast<double>(uses.tokens[i]);
      words[i] += static_cast<double>(uses.words[i]);
    }
  double total_tokens = 0, total_words = 0;
  for (const double count : tokens) total_tokens += count;
  for (const CountedWord& word : words_) total_words += static_cast<double>(word.count);

  std::vector<std::pair<double, size_t>> losses;  // (-loss, piece)
  std::vector<ScoredPiece> kept;
  std::vector<int32_t> other;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (is_char_[i]) kept.push_back(pieces_[i]);
    if (is_char_[i] || tokens[i] == 0) continue;
    best_cut(pieces_[i].text, static_cast<int32_t>(i), other);
    const double log_without = std::log(total_tokens + tokens[i] * static_cast<double>(other.size() - 1));
    double without = 0;
    for (const int32_t id : other)
      without += std::log(tokens[static_cast<size_t>(id)] + tokens[i]) - log_without;
    const double with = std::log(tokens[i]) - std::log(total_tokens);
    losses.emplace_back(-words[i] / total_words * (with - without), i);
  }
  std::ranges::sort(losses);
  const auto wanted =
      std::max(num_pieces_, static_cast<size_t>(kKeepPerRound * static_cast<double>(pieces_.size())));
  for (const auto& [loss, i] : losses) {
    if (kept.size() >= wanted) break;
    kept.push_back(pieces_[i]);
  }
  set_pieces(std::move(kept));
}

}  // namespace athanor::text::trainers
