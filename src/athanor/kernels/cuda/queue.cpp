#include "athanor/kernels/cuda/queue.h"

#include <algorithm>
#include <cstring>

#include "athanor/base/clock.h"
#include "athanor/base/meter.h"
#include "athanor/kernels/cuda/copy_lane.h"
#include "athanor/kernels/cuda/plugin.h"

namespace athanor::kernels {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
constexpr int kPieces = 8;

}  // namespace

const KernelTable cuda_table{cuda_attention, cuda_cross_entropy, cuda_dropout,   cuda_elementwise,
                             cuda_embedding, cuda_gelu,          cuda_gemm,      cuda_layer_norm,
                             cuda_optimizer, cuda_quantize,      cuda_rms_norm,  cuda_rope,
                             cuda_router,    cuda_swiglu,        cuda_token_rows};

// Generic: the CPU's drivers, which check contracts, then ask for the least workspace.
CudaQueue::CudaQueue(const CudaCalls& calls, int device, ThreadPool* pool)
    : Queue(Device::cuda, Isa::generic, pool, &cuda_table), calls_(calls), device_(device) {
  check_cuda_device(calls, device);
  void* fault = nullptr;
  check_call("pinned memory of the host", calls_.allocate_pinned(sizeof(CudaFault), &fault));
  fault_ = new (fault) CudaFault{};
  check_call("a stream", calls_.open_stream(device, fault_, &stream_));
  ring_ = std::make_unique<PinnedRing>(calls_, stream_, kPieceBytes, kPieces);
}

CudaQueue::~CudaQueue() {
  ring_.reset();
  calls_.close_stream(stream_);
  calls_.release_pinned(fault_);
}

std::optional<Slab> CudaQueue::allocate(uint64_t size_bytes) {
  void* data = nullptr;
  check_call("memory", calls_.allocate(device_, size_bytes, &data));
  if (data == nullptr) return std::nullopt;
  return Slab{static_cast<std::byte*>(data), size_bytes};
}

void CudaQueue::release(const Slab& slab) {
  calls_.wait(stream_);
  calls_.release(slab.data);
}

uint64_t CudaQueue::free_bytes() {
  CudaDevice description{};
  check_call("its description", calls_.describe(device_, &description));
  return description.free_bytes;
}

void CudaQueue::copy_in(void* to, const void* from_host, uint64_t size_bytes) {
  const auto* from = static_cast<const std::byte*>(from_host);
  for (uint64_t done = 0; done < size_bytes;) {
    const uint64_t count = std::min(ring_->piece_bytes(), size_bytes - done);
    std::byte* piece = ring_->next();
    std::memcpy(piece, from + done, count);
    check_call("a copy to the device",
               calls_.copy(stream_, static_cast<std::byte*>(to) + done, piece, count));
    ring_->used();
    done += count;
  }
}

void CudaQueue::copy_out(void* to_host, const void* from, uint64_t size_bytes) {
  auto* to = static_cast<std::byte*>(to_host);
  for (uint64_t done = 0; done < size_bytes;) {
    const uint64_t count = std::min(ring_->piece_bytes(), size_bytes - done);
    std::byte* piece = ring_->next();
    check_call("a copy to the host",
               calls_.copy(stream_, piece, static_cast<const std::byte*>(from) + done, count));
    wait();
    std::memcpy(to + done, piece, count);
    done += count;
  }
}

void CudaQueue::copy(void* to, const void* from, uint64_t size_bytes) {
  check_call("a copy", calls_.copy(stream_, to, from, size_bytes));
}

void CudaQueue::clear(void* to, uint64_t size_bytes) {
  check_call("clearing memory", calls_.clear(stream_, to, size_bytes));
}

std::unique_ptr<CopyLane> CudaQueue::open_copy_lane() {
  return std::make_unique<CudaCopyLane>(*this);
}

void CudaQueue::wait() {
  if (const char* error = calls_.wait(stream_)) {
    std::string last;
    for (size_t i = std::min<size_t>(num_submitted_, last_kernels_.size()); i > 0; --i)
      last +=
          std::string(last.empty() ? "" : ", ") + last_kernels_[(num_submitted_ - i) % last_kernels_.size()];
    fail("cuda: device {} failed: {}; the last kernels submitted: {}", device_, error,
         last.empty() ? "none" : last);
  }
  check_fault();
}

void CudaQueue::check_fault() {
  const CudaFault fault = *fault_;
  if (fault.code == CudaFault::none) return;
  *fault_ = {};
  const char* const kinds[] = {"", "cross_entropy: target", "embedding: id", "token_rows.gather: token",
                               "token_rows: row"};
  fail("{} {} at position {}, expected less than {}", kinds[fault.code], fault.value, fault.at, fault.end);
}

void CudaQueue::submitted(const char* kernel, const Tensor& x, const char* error) {
  last_kernels_[num_submitted_++ % last_kernels_.size()] = kernel;
  if (error != nullptr)
    throw Recoverable(fmt::format("cuda: {} of {} {}: {}", kernel, name_of(x.dtype()), x.shape(), error));
  if (meter() == nullptr) return;
  wait();
  meter()->extend(kernel, now_ns());
}

void CudaQueue::check_call(const char* what, const char* error) const {
  if (error != nullptr) fail("cuda: {} on device {}: {}", what, device_, error);
}

std::unique_ptr<Queue> make_cuda_queue(const CudaCalls& calls, int device, ThreadPool* pool) {
  return std::make_unique<CudaQueue>(calls, device, pool);
}

}  // namespace athanor::kernels
