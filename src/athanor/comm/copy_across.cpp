#include "athanor/comm/copy_across.h"

#include <emmintrin.h>

#include <cstring>

namespace athanor::comm {

namespace {

constexpr size_t kLineBytes = 64;
constexpr size_t kLongBytes = 4096;  // shorter copies arrive sooner through the caches
// Between measured rates within a chiplet (4 to 40) and across (1.5 to 2.5).
constexpr int64_t kSlowBytesPerNs = 3;
constexpr int kSlowInARow = 4;  // fewer slow copies may be a descheduled thread, or the first touch of pages
constexpr int kStreams = 128;   // then a slow trial through the caches costs little

void stream(std::byte* to, const std::byte* from, size_t bytes) {
  const size_t head = (kLineBytes - reinterpret_cast<uintptr_t>(to) % kLineBytes) % kLineBytes;
  std::memcpy(to, from, head);
  size_t at = head;
  for (; at + kLineBytes <= bytes; at += kLineBytes)
    for (size_t part = at; part < at + kLineBytes; part += sizeof(__m128i))
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + part),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + part)));
  std::memcpy(to + at, from + at, bytes - at);
  _mm_sfence();  // streaming stores are unordered without it
}

}  // namespace

void CopyAcross::copy(void* to, const void* from, size_t bytes) {
  if (bytes < kLongBytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return;
  }
  if (streams_left_ > 0) {
    --streams_left_;
    return stream(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
  }
  const int64_t start_ns = now_ns_();
  std::memcpy(to, from, bytes);
  const bool slow = static_cast<int64_t>(bytes) < kSlowBytesPerNs * (now_ns_() - start_ns);
  slow_in_a_row_ = slow ? slow_in_a_row_ + 1 : 0;
  if (slow_in_a_row_ < kSlowInARow) return;
  streams_left_ = kStreams;
  slow_in_a_row_ = kSlowInARow - 1;  // one slow trial copy is then enough to stream again
}

}  // namespace athanor::comm
