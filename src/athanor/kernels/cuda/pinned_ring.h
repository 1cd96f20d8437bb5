// A ring of pinned host buffers for copies to the device. The host writes into a buffer and goes on at once; the buffer
// is reused only after the device has copied it, so the host waits only when all buffers are in flight.
//
//   PinnedRing ring(calls, stream, 1 << 20, 8);
//   std::byte* piece = ring.next();          // of piece_bytes(); waits for the copy that used it last
//   std::memcpy(piece, batch, n);
//   calls.copy(stream, to, piece, n);
//   ring.used();                             // the buffer is in use until the stream's work so far is done
//
// Thread rule: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "athanor/kernels/cuda/calls.h"

namespace athanor::kernels {

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

}  // namespace athanor::kernels
