#include "athanor/kernels/cuda/driver.h"

namespace athanor::kernels {
namespace {

// What sorting ids takes (kernel_calls.h).
uint64_t sort_bytes(const Tensor& ids) {
  constexpr uint64_t kSortBytes = uint64_t{4} << 20, kBytesOfId = 24;
  return kSortBytes + kBytesOfId * static_cast<uint64_t>(ids.numel());
}

void forward(Queue& queue, Tensor& y, const Tensor& ids, const Tensor& table, const Tensor* positions,
             int64_t first_position) {
  cpu_embedding.forward(queue, y, ids, table, positions, first_position);
  CudaQueue& device = cuda(queue);
  const int64_t width = y.dim(2);
  const void* first = positions == nullptr ? nullptr : at(*positions, first_position * width);
  device.submitted(
      "embedding.forward", y,
      kernels_of(device).embedding_forward(device.stream(), y.dtype(), y.raw(), ids.data<int32_t>(),
                                           table.raw(), first, ids.numel(), y.dim(1), width, table.dim(0)));
}

void backward(Queue& queue, Tensor& dtable, const Tensor& dy, const Tensor& ids) {
  cpu_embedding.backward(queue, dtable, dy, ids);
  CudaQueue& device = cuda(queue);
  const uint64_t bytes = sort_bytes(ids);
  const LibraryWorkspace workspace(dy.arena(), bytes);
  device.submitted("embedding.backward", dy,
                   kernels_of(device).embedding_backward(device.stream(), dy.dtype(), dtable.data<float>(),
                                                         dy.raw(), ids.data<int32_t>(), ids.numel(),
                                                         dy.dim(2), dtable.dim(0), workspace.data(), bytes));
}

void backward_positions(Queue& queue, Tensor& dpositions, const Tensor& dy, int64_t first_position) {
  cpu_embedding.backward_positions(queue, dpositions, dy, first_position);
  CudaQueue& device = cuda(queue);
  float* first = dpositions.data<float>() + first_position * dy.dim(2);
  device.submitted("embedding.backward_positions", dy,
                   kernels_of(device).embedding_backward_positions(
                       device.stream(), dy.dtype(), first, dy.raw(), dy.dim(0), dy.dim(1), dy.dim(2)));
}

void move_rows(Queue& queue, Tensor& sum, Tensor& table, const Tensor& ids) {
  cpu_embedding.move_rows(queue, sum, table, ids);
  CudaQueue& device = cuda(queue);
  const uint64_t bytes = sort_bytes(ids);
  const LibraryWorkspace workspace(sum.arena(), bytes);
  device.submitted("embedding.move_rows", sum,
                   kernels_of(device).embedding_move_rows(
                       device.stream(), sum.data<float>(), table.data<float>(), ids.data<int32_t>(),
                       ids.numel(), sum.dim(1), sum.dim(0), workspace.data(), bytes));
}

}  // namespace

const EmbeddingKernels cuda_embedding{forward, backward, backward_positions, move_rows};

}  // namespace athanor::kernels
