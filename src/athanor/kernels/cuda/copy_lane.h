// A CopyLane of a CUDA device (tensor/copy_lane.h): a second stream, and events both ways.
//
// An event stands for the copies up to one of the last kEvents; to wait for an older one is to wait for a later one,
// which comes after it. Thread rule: as CopyLane.
#pragma once

#include <array>

#include "athanor/kernels/cuda/queue.h"
#include "athanor/tensor/copy_lane.h"

namespace athanor {

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
  CudaCalls::Event* computed_ = nullptr;             // what the queue was given before the last copy
  std::array<CudaCalls::Event*, kEvents> copied_{};  // in turn
  uint64_t started_ = 0;
};

}  // namespace athanor
