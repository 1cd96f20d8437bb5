// A CUDA device as a Queue: a stream, the device's memory, and a KernelTable.
//
//   CudaQueue queue(load_cuda(path), 0, &pool);
//   Arena arena(queue);                              // slabs of the device's memory
//   copy_from_host(ids, batch.data(), bytes);        // through pinned memory; returns at once
//   kernels_of(x).gelu.forward(queue, y, x, GeluForm::exact);      // submitted; returns at once
//   copy_to_host(losses, loss, bytes);               // waits
//
// Only these wait for the device: copy_to_host(), wait(), sum_squares and token_rows.assign (the host needs their
// results), and release() of a slab. Where a CPU driver throws because of its data (an id out of range), the device's
// kernel skips the element and notes a CudaFault; the next wait throws the Error. Errors: OverLimit if the device is
// full (tensor/arena.h). Recoverable, naming kernel and shapes, if a launch is refused. Error, naming the last kernels,
// if the device fails later; the queue cannot be used any more. Thread rule: as Queue.
#pragma once

#include <array>
#include <memory>

#include "athanor/kernels/cuda/kernel_calls.h"
#include "athanor/kernels/cuda/pinned_ring.h"
#include "athanor/kernels/table.h"
#include "athanor/tensor/device_memory.h"

namespace athanor::kernels {

class CudaQueue final : public Queue, public DeviceMemory {
 public:
  CudaQueue(const CudaCalls& calls, int device, ThreadPool* pool);
  ~CudaQueue() override;

  DeviceMemory* device_memory() override { return this; }
  std::optional<Slab> allocate(uint64_t size_bytes) override;
  void release(const Slab& slab) override;
  uint64_t free_bytes() override;
  void copy_in(void* to, const void* from_host, uint64_t size_bytes) override;
  void copy_out(void* to_host, const void* from, uint64_t size_bytes) override;
  void copy(void* to, const void* from, uint64_t size_bytes) override;
  void clear(void* to, uint64_t size_bytes) override;
  std::unique_ptr<CopyLane> open_copy_lane() override;

  void wait();  // for all submitted work
  const CudaCalls& calls() const { return calls_; }
  int device_index() const { return device_; }
  CudaCalls::Stream* stream() { return stream_; }
  // Called after each submission, with its error text or null; throws if there is one. Where kernels are metered it waits
  // for the kernel, so that its time can be told.
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

// The CudaQueue behind a queue of a CUDA device; Error for another device.
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

}  // namespace athanor::kernels
