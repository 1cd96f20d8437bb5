// A Queue says where the work of a tensor is done: a device and, on a CPU, the threads and the instruction set to use.
// It is what PyTorch calls a device plus its stream.
//
//   const std::unique_ptr<Queue> queue = make_cpu_queue(&pool, best_isa());   // kernels/table.h
//   Arena arena(*queue);
//
// The `null` device runs nothing and owns no memory. Code that runs on it only computes shapes and allocates addresses:
// the memory plan is made by the real code (law 7). kernels/table.h makes queues, since it knows the kernels of each
// device. A Queue outlives the arenas and tensors on it. Thread rule: one thread at a time submits to a Queue.
#pragma once

#include <cstdint>
#include <functional>

#include "athanor/base/cpu.h"
#include "athanor/base/meter.h"
#include "athanor/base/thread_pool.h"

namespace athanor::kernels {
struct KernelTable;   // kernels/table.h
class PackedWeights;  // kernels/packed_weights.h
}  // namespace athanor::kernels

namespace athanor::tensor {

enum class Device : uint8_t { cpu, null, cuda };

const char* name_of(Device device);

class DeviceMemory;  // tensor/device_memory.h

class Queue {
 public:
  Queue(Device device, Isa isa, ThreadPool* pool, const KernelTable* table)
      : device_(device), isa_(isa), pool_(pool), table_(table) {}
  virtual ~Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  Device device() const { return device_; }
  Isa isa() const { return isa_; }
  int num_threads() const { return pool_ == nullptr ? 1 : pool_->num_threads(); }
  const KernelTable& table() const { return *table_; }
  // The memory of a device that the host cannot address; null if tensors lie in host memory.
  virtual DeviceMemory* device_memory() { return nullptr; }

  // Counts the calls, time and FLOPs of kernels (base/meter.h); null: they are not counted.
  Meter* meter() const { return meter_; }
  void set_meter(Meter* meter) { meter_ = meter; }

  // Prepacked weights, which matrix products look up; null: none.
  PackedWeights* packed_weights() const { return packed_weights_; }
  void set_packed_weights(PackedWeights* packed) { packed_weights_ = packed; }

  // Calls body(block) for every block, on all threads. A kernel chooses a constant block size, never by the number of
  // threads (law 5). On a device other than the CPU nothing runs: such a device has kernels of its own.
  void parallel_for(int64_t num_blocks, const std::function<void(int64_t)>& body) const {
    if (device_ != Device::cpu) return;
    if (pool_ != nullptr) return pool_->parallel_for(num_blocks, body);
    for (int64_t block = 0; block < num_blocks; ++block) body(block);
  }

 private:
  Device device_;
  Isa isa_;
  ThreadPool* pool_;
  const KernelTable* table_;
  Meter* meter_ = nullptr;
  PackedWeights* packed_weights_ = nullptr;
};

}  // namespace athanor::tensor
