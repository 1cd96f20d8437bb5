// Pinned memory of the host in pieces that are used in turn: what the host writes into one stays there until the
// device has copied it away, so the host goes on at once and waits only where it is a whole ring ahead.
//
//   PinnedRing ring(calls, stream, 1 << 20, 8);
//   std::byte* piece = ring.next();          // of piece_bytes(); waits for the copy that used it last
//   std::memcpy(piece, batch, n);
//   calls.copy(stream, to, piece, n);
//   ring.used();                             // the stream's work so far uses it
//
// Thread rule: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "athanor/kernels/cuda/calls.h"

namespace athanor {

class PinnedRing {
 public:
  PinnedRing(const CudaCalls& calls, CudaCalls::Stream* stream, uint64_t piece_bytes, int pieces);
  ~PinnedRing();  // waits for the stream
  PinnedRing(const PinnedRing&) = delete;
  PinnedRing& operator=(const PinnedRing&) = delete;

  uint64_t piece_bytes() const { return piece_bytes_; }
  std::byte* next();
  void used();

 private:
  struct Piece {
    std::byte* data = nullptr;
    CudaCalls::Event* event = nullptr;
  };
  const CudaCalls& calls_;
  CudaCalls::Stream* stream_;
  uint64_t piece_bytes_;
  std::vector<Piece> pieces_;
  size_t turn_ = 0;
};

}  // namespace athanor
