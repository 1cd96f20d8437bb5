#include "athanor/parallel/context/context_parallel.h"

#include <algorithm>

namespace athanor::parallel::context {

ContextKind parse_context_kind(const std::string& name) {
  if (name == "ring") return ContextKind::ring;
  if (name == "ulysses") return ContextKind::ulysses;
  fail("context parallel: got the kind '{}', expected ring or ulysses", name);
}

std::vector<TokenRun> tokens_of_rank(ContextKind kind, int64_t seq_len, int rank, int ranks) {
  const int chunks = kind == ContextKind::ring ? 2 * ranks : ranks;
  check(seq_len >= chunks, "context parallel: got sequences of {} tokens, expected at least {} for {} ranks",
        seq_len, chunks, ranks);
  const auto chunk = [&](int64_t index) -> TokenRun {
    const int64_t first = seq_len * index / chunks;
    return {first, seq_len * (index + 1) / chunks - first};
  };
  if (kind == ContextKind::ulysses) return {chunk(rank)};
  return {chunk(rank), chunk(chunks - 1 - rank)};
}

ContextParallel::ContextParallel(ContextKind kind, int64_t seq_len, Group& group) {
  std::vector<std::vector<TokenRun>> runs;
  for (int rank = 0; rank < group.size(); ++rank)
    runs.push_back(tokens_of_rank(kind, seq_len, rank, group.size()));
  ring_ = {&group, runs};
  ulysses_ = {&group, runs};
  part_.length = seq_len;
  part_.runs = runs[static_cast<size_t>(group.rank())];
  if (kind == ContextKind::ring)
    part_.attention = [this](const Var& q, const Var& k, const Var& v, const HeadMasks& masks) {
      return ring_attention(q, k, v, ring_, masks);
    };
  else
    part_.attention = [this](const Var& q, const Var& k, const Var& v, const HeadMasks& masks) {
      return ulysses_attention(q, k, v, ulysses_, masks);
    };
  part_.of_all = [this](std::span<const int32_t> values, int64_t num_sequences) {
    return gather(values, num_sequences);
  };
  for (const auto& of_rank : runs) part_.most = std::max(part_.most, token_count(of_rank));
}

std::vector<int32_t> ContextParallel::gather(std::span<const int32_t> values, int64_t num_sequences) const {
  const int64_t width = std::ssize(values) / (num_sequences * part_.count());
  const int64_t most = num_sequences * part_.most * width;
  std::vector<int32_t> own(values.begin(), values.end());
  own.resize(static_cast<size_t>(most));
  std::vector<int32_t> all(own.size() * ring_.runs.size());
  group().all_gather(own.data(), all.data(), most, Dtype::i32, "values of all tokens").wait();
  std::vector<int32_t> whole(static_cast<size_t>(num_sequences * part_.length * width));
  auto from_rank = all.begin();
  for (const auto& runs : ring_.runs) {
    const SequencePart part{.length = part_.length, .runs = runs};
    walk_tokens(part, 0, num_sequences * part.count(), num_sequences,
                [&](int64_t row, int64_t place, int64_t count) {
                  std::copy_n(from_rank + row * width, count * width, whole.begin() + place * width);
                });
    from_rank += most;
  }
  return whole;
}

std::vector<int32_t> ContextParallel::take(std::span<const int32_t> values, int64_t num_sequences) const {
  check(std::ssize(values) == num_sequences * part_.length,
        "context parallel: got {} values, expected {} sequences of {}", values.size(), num_sequences,
        part_.length);
  std::vector<int32_t> own;
  for (int64_t sequence = 0; sequence < num_sequences; ++sequence)
    for (const TokenRun& run : part_.runs) {
      const auto first = values.begin() + sequence * part_.length + run.first;
      own.insert(own.end(), first, first + run.count);
    }
  return own;
}

}  // namespace athanor::parallel::context
