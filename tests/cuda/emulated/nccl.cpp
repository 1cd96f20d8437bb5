// NCCL between the threads of one process, on the emulated device. Sends and receives are matched in a room that the id
// names; a stream waits at a transfer until all its messages are matched. If a rank aborts its communicator, the other
// ranks get an error, as if its process had ended.
#include "athanor/kernels/cuda/nccl_calls.h"

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/emulated/memory.h"
#include "cuda/emulated/stream.h"

namespace athanor::kernels {
namespace emulated {
namespace {

struct Sent {
  const void* data;
  uint64_t size_bytes;
  bool taken = false;
};

struct Room {
  std::mutex mutex;
  int size = 0, present = 0;
  bool aborted = false, differs = false;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Sent>>> sent;  // from, to
};

struct Rooms {
  std::mutex mutex;
  std::map<std::array<std::byte, NcclCalls::kIdBytes>, std::weak_ptr<Room>> by_id;
};

Rooms& rooms() {
  static Rooms all;
  return all;
}

}  // namespace
}  // namespace emulated

struct NcclCalls::Communicator {
  std::shared_ptr<emulated::Room> room;
  int rank = 0;
  std::shared_ptr<std::atomic<bool>> left = std::make_shared<std::atomic<bool>>(false);
};

namespace emulated {
namespace {

using Error = const char*;
using Communicator = NcclCalls::Communicator;

Error make_id(std::byte* id) {
  static std::atomic<uint64_t> next = 1;
  std::memset(id, 0, NcclCalls::kIdBytes);
  const uint64_t number = next++;
  std::memcpy(id, &number, sizeof number);
  return nullptr;
}

Error open(int device, const std::byte* id, int rank, int size, Communicator** communicator) {
  if (device != 0) return "there is one emulated device";
  std::array<std::byte, NcclCalls::kIdBytes> key{};
  std::memcpy(key.data(), id, key.size());
  Rooms& all = rooms();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.by_id, [](const auto& room) { return room.second.expired(); });
  auto room = all.by_id[key].lock();
  if (!room) all.by_id[key] = room = std::make_shared<Room>();
  const std::lock_guard in_room(room->mutex);
  if (room->size != 0 && room->size != size) return "the ranks do not agree on their number";
  room->size = size;
  ++room->present;
  *communicator = new Communicator{std::move(room), rank};
  return nullptr;
}

Error is_ready(Communicator* communicator, bool* ready) {
  const std::lock_guard lock(communicator->room->mutex);
  *ready = communicator->room->present >= communicator->room->size;
  if (communicator->room->differs) return "a send and its receive have different lengths";
  return communicator->room->aborted ? "a remote process exited" : nullptr;
}

// The messages of one transfer that are not matched yet.
struct Transfer {
  std::shared_ptr<Room> room;
  std::shared_ptr<std::atomic<bool>> left;
  int rank;
  std::vector<NcclMessage> recvs, sends;
  std::vector<std::shared_ptr<Sent>> sent;

  bool go_on() {
    const DeviceAccess access;
    const std::lock_guard lock(room->mutex);
    if (left->load()) return true;
    if (room->aborted) return false;  // until this rank aborts, too
    for (const NcclMessage& one : std::exchange(sends, {})) {
      sent.push_back(std::make_shared<Sent>(Sent{one.data, one.size_bytes}));
      room->sent[{rank, one.peer}].push_back(sent.back());
    }
    std::vector<NcclMessage> waiting;
    for (const NcclMessage& one : recvs) {
      auto& queue = room->sent[{one.peer, rank}];
      if (queue.empty()) {
        waiting.push_back(one);
        continue;
      }
      const std::shared_ptr<Sent> first = queue.front();
      queue.pop_front();
      first->taken = true;
      if (first->size_bytes == one.size_bytes)
        std::memcpy(one.data, first->data, one.size_bytes);
      else
        room->differs = true;
    }
    recvs = std::move(waiting);
    std::erase_if(sent, [](const auto& one) { return one->taken; });
    return recvs.empty() && sent.empty();
  }
};

Error transfer(Communicator* communicator, CudaCalls::Stream* stream, const NcclMessage* messages,
               size_t count) {
  auto all = std::make_shared<Transfer>();
  all->room = communicator->room;
  all->left = communicator->left;
  all->rank = communicator->rank;
  for (size_t i = 0; i < count; ++i) (messages[i].is_send ? all->sends : all->recvs).push_back(messages[i]);
  stream->submit([all] { return all->go_on(); });
  return nullptr;
}

void close(Communicator* communicator) {
  delete communicator;
}

void abort(Communicator* communicator) {
  communicator->left->store(true);
  {
    const std::lock_guard lock(communicator->room->mutex);
    communicator->room->aborted = true;
  }
  delete communicator;
}

constexpr NcclCalls kNccl{.version = NcclCalls::kVersion,
                          .library_version = 0,
                          .make_id = make_id,
                          .open = open,
                          .is_ready = is_ready,
                          .transfer = transfer,
                          .close = close,
                          .abort = abort};

}  // namespace
}  // namespace emulated

extern "C" const NcclCalls* athanor_nccl_calls() {
  return &emulated::kNccl;
}

}  // namespace athanor::kernels
