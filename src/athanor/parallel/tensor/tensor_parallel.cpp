#include "athanor/parallel/tensor/tensor_parallel.h"

#include <algorithm>
#include <cmath>

#include "athanor/kernels/table.h"
#include "athanor/parallel/tensor/collective_ops.h"

namespace athanor::parallel::tensor {
namespace {

struct Piece {
  Tensor gradient;
  Shard shard;
};

// Concatenates the gradients.
Tensor pack(const std::vector<Piece>& pieces) {
  int64_t count = 0;
  for (const Piece& piece : pieces) count += piece.gradient.numel();
  Tensor packed = empty(pieces[0].gradient.arena(), {count}, Dtype::f32, Category::communication);
  int64_t at = 0;
  for (const Piece& piece : pieces) {
    Tensor to = packed.flat(at, piece.gradient.numel());
    copy(to, piece.gradient);
    at += piece.gradient.numel();
  }
  return packed;
}

void sum_of_all(const std::vector<Piece>& pieces, Group& group) {
  const Tensor packed = pack(pieces);
  group.all_reduce(packed.raw(), packed.numel(), Dtype::f32, "partial gradients").wait(packed.queue());
  int64_t at = 0;
  for (const Piece& piece : pieces) {
    Tensor to = piece.gradient;
    copy(to, packed.flat(at, to.numel()));
    at += to.numel();
  }
}

// For parameters replicated on some consecutive ranks: all-gathers over the group, then each rank adds the gradients of
// the ranks that have the same part, in rank order.
void sum_of_neighbours(const std::vector<Piece>& pieces, Group& group) {
  const Tensor packed = pack(pieces);
  const int64_t count = packed.numel();
  Tensor all = empty(packed.arena(), {group.size(), count}, Dtype::f32, Category::communication);
  group.all_gather(packed.raw(), all.raw(), count, Dtype::f32, "partial gradients of replicated parameters")
      .wait(all.queue());
  int64_t at = 0;
  for (const Piece& piece : pieces) {
    Tensor sum = piece.gradient;
    const int first = group.rank() - piece.shard.copy;
    for (int place = 0; place < piece.shard.copies; ++place) {
      const Tensor summand = all.flat((first + place) * count + at, sum.numel()).view(sum.shape());
      if (place == 0)
        copy(sum, summand);
      else
        kernels_of(sum).elementwise.accumulate(sum.queue(), sum, summand);
    }
    at += sum.numel();
  }
}

}  // namespace

void sum_partial_gradients(const std::vector<std::unique_ptr<Param>>& params,
                           const std::function<const Tensor&(Param&)>& gradient_of, Group& group) {
  if (group.size() == 1) return;
  std::vector<Piece> of_all, of_neighbours;
  for (const auto& param : params)
    for (const Shard& shard : param->shards()) {
      if (!shard.partial || shard.copies == 1) continue;
      auto& pieces = shard.copies == group.size() ? of_all : of_neighbours;
      pieces.push_back({gradient_of(*param), shard});
    }
  if (!of_all.empty()) sum_of_all(of_all, group);
  if (!of_neighbours.empty()) sum_of_neighbours(of_neighbours, group);
}

FlatRange PartitionedTokens::own(int64_t tokens) const {
  return own_rows(tokens, group_.rank(), group_.size());
}

int64_t PartitionedTokens::most(int64_t tokens) const {
  return partitioned_rows(tokens, group_.size());
}

// Only the last ranks have fewer tokens, so all padding is at the end.
std::vector<int32_t> PartitionedTokens::of_all(const Tensor& values, int64_t tokens) const {
  const int64_t width = values.dim(1), count = most(tokens) * width;
  std::vector<int32_t> own(static_cast<size_t>(count)), all(own.size() * static_cast<size_t>(group_.size()));
  copy_to_host(own.data(), values, values.size_bytes());
  group_.all_gather(own.data(), all.data(), count, Dtype::i32, "choices of all tokens").wait();
  all.resize(static_cast<size_t>(tokens * width));
  return all;
}

void combine_statistics(Tensor& statistics, Group& group) {
  const int64_t rows = statistics.dim(0);
  Tensor all = empty(statistics.arena(), {group.size(), rows, 3}, Dtype::f32, Category::communication);
  group.all_gather(statistics.raw(), all.raw(), rows * 3, Dtype::f32, "softmax statistics").wait();
  // Combined on the host, also for device tensors: a few numbers a token.
  std::vector<float> from(static_cast<size_t>(all.numel())), combined(static_cast<size_t>(rows * 3));
  copy_to_host(from.data(), all, all.size_bytes());
  float* to = combined.data();
  const auto of = [&](int rank, int64_t row) { return from.data() + (rank * rows + row) * 3; };
  for (int64_t row = 0; row < rows; ++row) {
    float largest = of(0, row)[0], target = 0.0f;
    // NaN must propagate; no comparison with it is true, so it is tested for.
    for (int rank = 0; rank < group.size(); ++rank)
      if (const float own = of(rank, row)[0]; own > largest || std::isnan(own)) largest = own;
    double sum = 0.0;
    for (int rank = 0; rank < group.size(); ++rank) {
      const float* own = of(rank, row);
      sum +=
          static_cast<double>(own[1]) * std::exp(static_cast<double>(own[0]) - static_cast<double>(largest));
      target += own[2];
    }
    to[row * 3] = largest;
    to[row * 3 + 1] = static_cast<float>(sum);
    to[row * 3 + 2] = target;
  }
  copy_from_host(statistics, combined.data(), statistics.size_bytes());
}

}  // namespace athanor::parallel::tensor
