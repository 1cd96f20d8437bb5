// The NCCL module: NCCL as the program's table NcclCalls. Communicators are non-blocking, so that a rank that waits can
// poll for dead peers.
#include "athanor/kernels/cuda/nccl_calls.h"

#include <nccl.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "athanor/kernels/cuda/device/stream.h"

namespace athanor::kernels {

struct NcclCalls::Communicator {
  ncclComm_t comm = nullptr;
};

namespace cuda {
namespace {

using Error = const char*;
using Communicator = NcclCalls::Communicator;
static_assert(NcclCalls::kIdBytes == sizeof(ncclUniqueId));

Error text_of(ncclResult_t result) {
  return result == ncclSuccess || result == ncclInProgress ? nullptr : ncclGetErrorString(result);
}

Error make_id(std::byte* id) {
  ncclUniqueId unique{};
  const ncclResult_t result = ncclGetUniqueId(&unique);
  std::memcpy(id, &unique, sizeof unique);
  return text_of(result);
}

Error open(int device, const std::byte* id, int rank, int size, Communicator** communicator) {
  if (const Error error = error_text(cudaSetDevice(device))) return error;
  ncclUniqueId unique{};
  std::memcpy(&unique, id, sizeof unique);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  auto* opened = new Communicator;
  const Error error = text_of(ncclCommInitRankConfig(&opened->comm, size, unique, rank, &config));
  if (error == nullptr)
    *communicator = opened;
  else
    delete opened;
  return error;
}

Error is_ready(Communicator* communicator, bool* ready) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(communicator->comm, &state);
  *ready = asked == ncclSuccess && state == ncclSuccess;
  return asked == ncclSuccess ? text_of(state) : text_of(asked);
}

Error transfer(Communicator* communicator, CudaCalls::Stream* stream, const NcclMessage* messages,
               size_t count) {
  if (const Error error = error_text(cudaSetDevice(stream->device))) return error;
  if (const Error error = text_of(ncclGroupStart())) return error;
  Error failed = nullptr;
  for (size_t i = 0; i < count && failed == nullptr; ++i) {
    const NcclMessage& one = messages[i];
    failed = text_of(
        one.is_send
            ? ncclSend(one.data, one.size_bytes, ncclInt8, one.peer, communicator->comm, stream->stream)
            : ncclRecv(one.data, one.size_bytes, ncclInt8, one.peer, communicator->comm, stream->stream));
  }
  const Error ended = text_of(ncclGroupEnd());
  return failed != nullptr ? failed : ended;
}

void end_at_once(Communicator* communicator) {
  ncclCommAbort(communicator->comm);
  delete communicator;
}

// Data in NCCL's buffers reaches the other ranks before the communicator is destroyed.
void close(Communicator* communicator) {
  constexpr int kMostMs = 5'000;
  bool ready = false;
  Error error = text_of(ncclCommFinalize(communicator->comm));
  for (int ms = 0; error == nullptr && !ready && ms < kMostMs; ++ms) {
    error = is_ready(communicator, &ready);
    if (!ready) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (!ready) return end_at_once(communicator);
  ncclCommDestroy(communicator->comm);
  delete communicator;
}

NcclCalls table() {
  NcclCalls calls{.version = NcclCalls::kVersion,
                  .library_version = 0,
                  .make_id = make_id,
                  .open = open,
                  .is_ready = is_ready,
                  .transfer = transfer,
                  .close = close,
                  .abort = end_at_once};
  ncclGetVersion(&calls.library_version);
  return calls;
}

}  // namespace
}  // namespace cuda

extern "C" const NcclCalls* athanor_nccl_calls() {
  static const NcclCalls calls = cuda::table();
  return &calls;
}

}  // namespace athanor::kernels
