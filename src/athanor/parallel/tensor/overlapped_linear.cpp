#include "athanor/parallel/tensor/overlapped_linear.h"

#include <algorithm>
#include <deque>

#include "athanor/parallel/tensor/collective_ops.h"

namespace athanor::parallel::tensor {
namespace {

int64_t chunks_of(int64_t rows) {
  return std::clamp<int64_t>(rows / kLeastChunkRows, 1, kMostChunks);
}

std::string chunk_name(const char* name, int64_t chunk, int64_t chunks) {
  return fmt::format("{} {}/{}", name, chunk + 1, chunks);
}

}  // namespace

Var linear_reduce_from(const Var& x, Weight& weight, Weight* bias, Group& group) {
  const int64_t rows = x.value.rows(), chunks = chunks_of(rows);
  if (group.size() == 1 || chunks == 1 || x.value.dtype() == Dtype::f16)
    return reduce_from(linear(x, weight, bias), group);
  // A replicated sum passes its gradient unchanged to every rank's partial value.
  return linear_in_pieces(x, weight, bias, [&](const Shape& shape, const LinearRows& product) {
    Tensor y = empty(x.value.arena(), shape, x.value.dtype(), Category::activations);
    const Tensor by_row = y.view({rows, shape[-1]});
    std::vector<Work> sums;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const int64_t first = rows * chunk / chunks, last = rows * (chunk + 1) / chunks;
      Tensor part = by_row.slice(first, last);
      product(part, first);
      sums.push_back(
          group.all_reduce(part.raw(), part.numel(), part.dtype(), chunk_name("reduce_from", chunk, chunks)));
    }
    for (Work& sum : sums) sum.wait(y.queue());
    return y;
  });
}

Var linear_reduce_scatter(const Var& x, Weight& weight, Weight* bias, Group& group) {
  const int64_t ranks = group.size(), rows = x.value.rows(), partitioned = rows / ranks,
                chunks = chunks_of(partitioned);
  if (ranks == 1 || chunks == 1 || rows % ranks != 0 || x.value.dtype() == Dtype::f16)
    return reduce_scatter(linear(x, weight, bias), group);
  Shape whole;
  const Var own = linear_in_pieces(x, weight, bias, [&](const Shape& shape, const LinearRows& product) {
    struct Sum {
      Tensor parts;  // [P, rows of the chunk, O]: freed when the work is done
      Work work;
    };
    whole = shape;
    const int64_t width = shape[-1];
    Tensor result = empty(x.value.arena(), {partitioned, width}, x.value.dtype(), Category::activations);
    std::deque<Sum> sums;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const int64_t first = partitioned * chunk / chunks, last = partitioned * (chunk + 1) / chunks;
      if (sums.size() == 2) {
        sums.front().work.wait(result.queue());
        sums.pop_front();
      }
      const Tensor parts =
          empty(x.value.arena(), {ranks, last - first, width}, x.value.dtype(), Category::communication);
      for (int64_t rank = 0; rank < ranks; ++rank) {
        Tensor part = parts.slice(rank, rank + 1).view({last - first, width});
        product(part, rank * partitioned + first);
      }
      Tensor sum = result.slice(first, last);
      sums.push_back({parts, group.reduce_scatter(parts.raw(), sum.raw(), sum.numel(), sum.dtype(),
                                                  chunk_name("reduce_scatter", chunk, chunks))});
    }
    for (Sum& sum : sums) sum.work.wait(result.queue());
    return result;
  });
  return scattered(own, whole, group);
}

Linear::Product overlapped(Boundary output, Group& group) {
  const auto bind = [&group](auto product) -> Linear::Product {
    return [product, &group](const Var& x, Weight& weight, Weight* bias) {
      return product(x, weight, bias, group);
    };
  };
  if (output == reduce_from) return bind(linear_reduce_from);
  if (output == reduce_scatter) return bind(linear_reduce_scatter);
  return nullptr;
}

}  // namespace athanor::parallel::tensor
