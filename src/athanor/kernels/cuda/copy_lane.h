// CopyLane (tensor/copy_lane.h) for a CUDA device: a second stream, ordered with the queue's stream by events.
//
// The last kEvents copies have an event each. Waiting for an older copy waits for a later copy, which comes after it.
// Thread rule: as CopyLane.
#pragma once

#include <array>

#include "athanor/kernels/cuda/queue.h"
#include "athanor/tensor/copy_lane.h"

namespace athanor::kernels {

class CudaCopyLane final : public CopyLane {
 public:
  explicit CudaCopyLane(CudaQueue& queue);
  ~CudaCopyLane() override;
  CudaCopyLane(const CudaCopyLane&) = delete;
  CudaCopyLane& operator=(const CudaCopyLane&) = delete;

  std::shared_ptr<std::byte> allocate_pinned(uint64_t size_bytes) override;
  uint64_t start(void* to, const void* from, uint64_t size_bytes) override;
  void await(uint64_t copy) override;
  void await_all() noexcept override;

 private:
  static constexpr size_t kEvents = 16;
  CudaCalls::Event* event_of(uint64_t copy) { return copied_[copy % kEvents]; }

  CudaQueue& queue_;
  const CudaCalls& calls_;
  CudaCalls::Stream* stream_ = nullptr;
  CudaCalls::Event* computed_ = nullptr;  // the queue's work that was submitted before the last copy
  std::array<CudaCalls::Event*, kEvents> copied_{};  // of the last copies, as a ring
  uint64_t started_ = 0;
};

}  // namespace athanor::kernels
