#include "athanor/kernels/cuda/pinned_ring.h"

#include "athanor/base/check.h"

namespace athanor::kernels {
namespace {

void check_call(const char* error) {
  check(error == nullptr, "cuda: pinned memory of the host: {}", error == nullptr ? "" : error);
}

}  // namespace

PinnedRing::PinnedRing(const CudaCalls& calls, CudaCalls::Stream* stream, uint64_t piece_bytes, int pieces)
    : calls_(calls), stream_(stream), piece_bytes_(piece_bytes), pieces_(static_cast<size_t>(pieces)) {
  for (Piece& piece : pieces_) {
    void* data = nullptr;
    check_call(calls_.allocate_pinned(piece_bytes, &data));
    piece.data = static_cast<std::byte*>(data);
    check_call(calls_.make_event(stream_, &piece.event));
  }
}

PinnedRing::~PinnedRing() {
  calls_.wait(stream_);
  for (const Piece& piece : pieces_) {
    calls_.forget_event(piece.event);
    calls_.release_pinned(piece.data);
  }
}

std::byte* PinnedRing::next() {
  const Piece& piece = pieces_[turn_];
  check_call(calls_.wait_event(piece.event));
  return piece.data;
}

void PinnedRing::used() {
  check_call(calls_.record(stream_, pieces_[turn_].event));
  turn_ = (turn_ + 1) % pieces_.size();
}

}  // namespace athanor::kernels
