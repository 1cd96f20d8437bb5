// An NCCL communicator with its CUDA stream: one for a group's collectives, one for each direction of messages between
// two ranks (nccl_group.h).
//
//   NcclLink link(device, rank, size);
//   link.open(id, look);                      // all ranks, with the id that one of them made
//   link.wait_for(event);                     // the work that produces the data
//   link.transfer({{.is_send = true, .peer = 1, .data = x, .size_bytes = 64}}, look);
//   link.mark();                              // end of the call
//   link.let_wait(queue);                     // the queue waits for the mark; or
//   link.finish(look);                        // the host does: the data have arrived; their memory may be used again
//
// A waiting thread calls look() every few milliseconds; it throws for failures that NCCL cannot know.
// Errors: NcclError with the library's text, also for effects of another rank's end. After any error abort() ends all
// pending transfers. Thread rule: one thread at a time, abort() included.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/kernels/cuda/nccl_calls.h"
#include "athanor/kernels/cuda/queue.h"
#include "athanor/tensor/arena.h"

namespace athanor::comm::nccl {

// A rank's device. A call runs after work that was submitted to the queue before it. All three outlive the groups.
struct NcclDevice {
  const NcclCalls& nccl;
  CudaQueue& queue;
  Arena& arena;  // of that queue; for staging buffers
};

class NcclError : public Recoverable {
 public:
  using Recoverable::Recoverable;
};

class CudaEvent {
 public:
  explicit CudaEvent(CudaQueue& queue);  // recorded on the queue
  ~CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  CudaCalls::Event* get() const { return event_; }

 private:
  const CudaCalls& calls_;
  CudaCalls::Event* event_ = nullptr;
};

class NcclLink {
 public:
  using Id = std::array<std::byte, NcclCalls::kIdBytes>;
  using Look = std::function<void()>;
  NcclLink(const NcclDevice& device, int rank, int size);
  ~NcclLink();  // completes pending transfers first, unless aborted
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  static Id make_id(const NcclCalls& nccl);
  bool is_open() const { return communicator_ != nullptr; }
  void open(const Id& id, const Look& look);
  void abort();

  CudaCalls::Stream* stream() const { return stream_; }
  void wait_for(const CudaEvent& event);
  void copy(void* to, const void* from, size_t size_bytes);                   // device memory
  void transfer(const std::vector<NcclMessage>& messages, const Look& look);  // as one NCCL group call
  void mark();
  void let_wait(Queue& queue) const;
  void finish(const Look& look);

 private:
  void settle(const char* what, const Look& look);  // waits until the library is ready
  void wait(const Look& look, const std::function<bool()>& done);

  const NcclDevice device_;
  const CudaCalls& calls_;
  const int rank_, size_;
  CudaCalls::Stream* stream_ = nullptr;
  CudaCalls::Event* finished_ = nullptr;
  NcclCalls::Communicator* communicator_ = nullptr;
};

}  // namespace athanor::comm::nccl
