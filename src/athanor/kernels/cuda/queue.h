// A CUDA device as a Queue: a stream, the device's memory, and the kernels as a column of the table.
//
//   CudaQueue queue(load_cuda(path), 0, &pool);
//   Arena arena(queue);                              // slabs of the device's memory
//   copy_from_host(ids, batch.data(), bytes);        // through pinned memory; returns at once
//   kernels(x).gelu.forward(queue, y, x);            // submitted; returns at once
//   copy_to_host(losses, loss, bytes);               // waits
//
// Nothing waits for the device but copy_to_host(), wait(), sum_squares and token_rows.assign, whose results the host
// needs, and the giving back of a slab. Where a driver of the CPU refuses what its data says (an id out of
// range), the device's kernel leaves the element out and notes it; the next wait throws the Error.
// Errors: OverLimit where the device is full (tensor/arena.h); Recoverable, naming kernel and shapes, where it
// refuses a launch; Error, naming the last kernels, where it fails later: it can then not be used any more.
// Thread rule: as Queue.
#pragma once

#include <array>
#include <memory>

#include "athanor/kernels/cuda/kernel_calls.h"
#include "athanor/kernels/cuda/pinned_ring.h"
#include "athanor/kernels/table.h"
#include "athanor/tensor/device_memory.h"

namespace athanor {

class CudaQueue final : public Queue, public DeviceMemory {
 public:
  CudaQueue(const CudaCalls& calls, int device, ThreadPool* pool);
  ~CudaQueue() override;

  DeviceMemory* device_memory() override { return this; }
  std::optional<Slab> allocate(uint64_t size_bytes) override;
  void release(const Slab& slab) override;
  void copy_in(void* to, const void* from_host, uint64_t size_bytes) override;
  void copy_out(void* to_host, const void* from, uint64_t size_bytes) override;
  void copy(void* to, const void* from, uint64_t size_bytes) override;
  void clear(void* to, uint64_t size_bytes) override;
  std::unique_ptr<CopyLane> open_copy_lane() override;

  void wait();  // for all that was submitted
  const CudaCalls& calls() const { return calls_; }
  int device_index() const { return device_; }
  CudaCalls::Stream* stream() { return stream_; }
  // Called with what a submission said.
  void submitted(const char* kernel, const Tensor& x, const char* error);

 private:
  void check_call(const char* what, const char* error) const;
  void check_fault();

  const CudaCalls& calls_;
  const int device_;
  CudaFault* fault_ = nullptr;  // pinned
  CudaCalls::Stream* stream_ = nullptr;
  std::unique_ptr<PinnedRing> ring_;
  std::array<const char*, 4> last_kernels_{"none", "none", "none", "none"};
  size_t num_submitted_ = 0;
};

std::unique_ptr<Queue> make_cuda_queue(const CudaCalls& calls, int device, ThreadPool* pool);

// Of a queue that is one.
inline CudaQueue& cuda(Queue& queue) {
  check(queue.device() == Device::cuda, "cuda: got a queue of the {}", name_of(queue.device()));
  return static_cast<CudaQueue&>(queue);
}

extern const KernelTable cuda_table;
extern const AttentionKernels cuda_attention;
extern const CrossEntropyKernels cuda_cross_entropy;
extern const DropoutKernels cuda_dropout;
extern const ElementwiseKernels cuda_elementwise;
extern const EmbeddingKernels cuda_embedding;
extern const GeluKernels cuda_gelu;
extern const GemmKernels cuda_gemm;
extern const LayerNormKernels cuda_layer_norm;
extern const OptimizerKernels cuda_optimizer;
extern const QuantizeKernels cuda_quantize;
extern const RmsNormKernels cuda_rms_norm;
extern const RopeKernels cuda_rope;
extern const RouterKernels cuda_router;
extern const SwigluKernels cuda_swiglu;
extern const TokenRowsKernels cuda_token_rows;

}  // namespace athanor
