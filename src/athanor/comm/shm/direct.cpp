// The collectives of SlotGroup on buffers that every rank can address: nothing is copied on the way. Once a rank has
// announced the call, other ranks may use its buffer until the last event of the call.
#include "athanor/comm/ordered_sum.h"
#include "athanor/comm/shm/pieces.h"
#include "athanor/comm/shm/shm_group.h"

namespace athanor::comm::shm {

namespace {

// Below this one wait and a copy are cheaper than two waits.
constexpr size_t kDirectBytes = size_t{32} << 10;
constexpr size_t kChunkBytes = size_t{64} << 10;  // bytes of each buffer that a rank claims at a time

}  // namespace

// All ranks agree on this without communication, since they have allocated the same regions.
bool SlotGroup::may_be_direct(int64_t count, Dtype dtype) const {
  return static_cast<size_t>(count) * size_of(dtype) > kDirectBytes && !regions_.empty();
}

bool SlotGroup::all_can_address(const Call& call) const {
  if (call.collective == Collective::broadcast || call.collective == Collective::scatter)
    return link_.place(call.root) != 0;
  for (int r = 0; r < size(); ++r)
    if (link_.place(r) == 0) return false;
  return true;
}

std::vector<std::byte*> SlotGroup::buffers_of_all() const {
  std::vector<std::byte*> buffers;
  buffers.reserve(static_cast<size_t>(size()));
  for (int r = 0; r < size(); ++r)
    buffers.push_back(link_.place(r) == 0 ? nullptr : regions_.at(link_.place(r), r));
  return buffers;
}

// Every rank starts with its own slice, which may still be in its cache, then helps the others.
void SlotGroup::share_work(int64_t count, size_t element,
                           const std::function<void(int64_t first, int64_t length)>& body) {
  const auto per_chunk = static_cast<int64_t>(kChunkBytes / element);
  link_.join_work();
  for (int i = 0; i < size(); ++i) {
    const int owner = (rank() + i) % size();
    const Piece slice = slice_of(count, element, size(), owner);
    while (const auto k = link_.claim(owner, pieces_of(slice.length, per_chunk))) {
      const Piece chunk = piece_of(slice.length, per_chunk, *k);
      body(slice.first + chunk.first, chunk.length);
    }
  }
  link_.finish_work();
}

void SlotGroup::reduce_directly(const Call& call) {
  const auto buffers = buffers_of_all();
  const size_t element = size_of(call.dtype);
  std::vector<void*> at(buffers.size());
  share_work(call.count, element, [&](int64_t first, int64_t length) {
    for (size_t r = 0; r < at.size(); ++r) at[r] = buffers[r] + static_cast<size_t>(first) * element;
    ordered_sum({at.data(), at.size()}, at, length, call.dtype);
  });
}

void SlotGroup::copy_directly(const std::function<void(int rank, const std::byte* buffer)>& copy_from) {
  const auto buffers = buffers_of_all();
  // Each rank starts at another one, so that they do not all read from one.
  for (int i = 0; i < size(); ++i) {
    const int r = (rank() + i) % size();
    copy_from(r, buffers[static_cast<size_t>(r)]);
  }
  link_.await(link_.publish());
}

}  // namespace athanor::comm::shm
