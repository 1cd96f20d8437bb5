#include "athanor/parallel/tensor_parallel.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "athanor/kernels/table.h"

namespace athanor {
namespace {

struct Piece {
  Tensor gradient;
  Shard shard;
};

// Gradients one after the other.
Tensor pack(const std::vector<Piece>& pieces) {
  int64_t count = 0;
  for (const Piece& piece : pieces) count += piece.gradient.numel();
  Tensor packed = empty(pieces[0].gradient.arena(), {count}, Dtype::f32, Category::communication);
  if (packed.queue().device() == Device::null) return packed;
  float* to = packed.data<float>();
  for (const Piece& piece : pieces)
    to = std::copy_n(piece.gradient.data<float>(), piece.gradient.numel(), to);
  return packed;
}

void sum_of_all(const std::vector<Piece>& pieces, Group& group) {
  const Tensor packed = pack(pieces);
  if (packed.queue().device() == Device::null) return;
  group.all_reduce(packed.raw(), packed.numel(), Dtype::f32, "partial gradients").wait();
  const float* from = packed.data<float>();
  for (const Piece& piece : pieces) {
    std::copy_n(from, piece.gradient.numel(), piece.gradient.data<float>());
    from += piece.gradient.numel();
  }
}

// Neighbours share a part: each takes the rows of those that hold the same, and adds them in order.
void sum_of_neighbours(const std::vector<Piece>& pieces, Group& group) {
  const Tensor packed = pack(pieces);
  const int64_t count = packed.numel();
  Tensor all = empty(packed.arena(), {group.size(), count}, Dtype::f32, Category::communication);
  if (packed.queue().device() == Device::null) return;
  group.all_gather(packed.raw(), all.raw(), count, Dtype::f32, "partial gradients of neighbours").wait();
  int64_t at = 0;
  for (const Piece& piece : pieces) {
    Tensor sum = piece.gradient;
    const int first = group.rank() - piece.shard.copy;
    for (int copy = 0; copy < piece.shard.copies; ++copy) {
      const Tensor addend = all.flat((first + copy) * count + at, sum.numel()).view(sum.shape());
      if (copy == 0)
        std::memcpy(sum.raw(), addend.raw(), sum.size_bytes());
      else
        kernels(sum).elementwise.accumulate(sum.queue(), sum, addend);
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

void combine_statistics(Tensor& statistics, Group& group) {
  const int64_t rows = statistics.dim(0);
  Tensor all = empty(statistics.arena(), {group.size(), rows, 3}, Dtype::f32, Category::communication);
  if (statistics.queue().device() == Device::null) return;
  group.all_gather(statistics.raw(), all.raw(), rows * 3, Dtype::f32, "softmax statistics").wait();
  const float* from = all.data<float>();
  float* to = statistics.data<float>();
  const auto of = [&](int rank, int64_t row) { return from + (rank * rows + row) * 3; };
  for (int64_t row = 0; row < rows; ++row) {
    float largest = of(0, row)[0], target = 0.0f;
    // A NaN must show: it is not less than anything, so it is asked for by name.
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
}

}  // namespace athanor
