// A communicator of NCCL and the stream that its messages go by: what a group has for its collectives, and a second one
// for the messages of two ranks (comm/nccl_group.h).
//
//   NcclLink link(device, rank, size);
//   link.open(id, look);                      // all ranks, with the id that one of them made
//   link.wait_for(event);                     // what the data are made by
//   link.transfer({{.is_send = true, .peer = 1, .data = x, .size_bytes = 64}}, look);
//   link.finish(look);                        // the data are there; their memory may be used again
//
// Whoever waits calls look() every few milliseconds, which throws when something is wrong that NCCL cannot know.
// Errors: NcclError with the library's words, also for what another rank's end does to it; after any error abort() ends
// what is under way. Thread rule: one thread at a time; abort() by it, too.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/kernels/cuda/nccl_calls.h"
#include "athanor/kernels/cuda/queue.h"
#include "athanor/tensor/arena.h"

namespace athanor {

// A rank's device; what was submitted to its queue before a call is seen by the call. All outlive the groups.
struct NcclDevice {
  const NcclCalls& nccl;
  CudaQueue& queue;
  Arena& arena;  // of that queue: for sums under way
};

class NcclError : public Recoverable {
 public:
  using Recoverable::Recoverable;
};

class CudaEvent {
 public:
  explicit CudaEvent(CudaQueue& queue);  // recorded there
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
  ~NcclLink();  // lets the others have what is under way, unless it was aborted
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  static Id make_id(const NcclCalls& nccl);
  bool is_open() const { return communicator_ != nullptr; }
  void open(const Id& id, const Look& look);
  void abort();

  CudaCalls::Stream* stream() const { return stream_; }
  void wait_for(const CudaEvent& event);
  void copy(void* to, const void* from, size_t size_bytes);                   // memory of the device
  void transfer(const std::vector<NcclMessage>& messages, const Look& look);  // none: nothing
  void finish(const Look& look);

 private:
  void settle(const char* what, const Look& look);  // until the library is ready
  void wait(const Look& look, const std::function<bool()>& done);

  const NcclDevice device_;
  const CudaCalls& calls_;
  const int rank_, size_;
  CudaCalls::Stream* stream_ = nullptr;
  CudaCalls::Event* finished_ = nullptr;
  NcclCalls::Communicator* communicator_ = nullptr;
};

}  // namespace athanor
