#include "athanor/kernels/peak.h"

#include <immintrin.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/kernels/cpu/amx/tile_config.h"
#include "athanor/kernels/cuda/ceilings.h"
#include "athanor/tensor/arena.h"

namespace athanor::kernels {
namespace {

// Hides a value from the compiler; otherwise clang finds that the sums below never change and removes the loops.
#define ATHANOR_UNKNOWN(value) asm("" : "+x"(value))

// One round of a loop makes independent multiply-adds on registers, enough of them to hide their latency (unrolled, or
// the sums would live in memory). The target attribute keeps each instruction set inside its function. A loop returns
// the FLOPs of one round and stores its registers into `sink`, so that the compiler cannot remove work.
using Loop = double (*)(int64_t rounds, float* sink);

double sse_loop(int64_t rounds, float* sink) {
  __m128 sums[12];
  for (__m128& sum : sums) sum = _mm_set1_ps(1.0f);
  const __m128 y = _mm_set1_ps(0.001f);
  __m128 x = _mm_set1_ps(0.999f);
  ATHANOR_UNKNOWN(x);
  for (int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 16
    for (__m128& sum : sums) sum = _mm_add_ps(_mm_mul_ps(sum, x), y);
  for (const __m128& sum : sums) _mm_storeu_ps(sink, _mm_add_ps(_mm_loadu_ps(sink), sum));
  return 12.0 * 4 * 2;
}

__attribute__((target("avx2,fma"))) double avx2_loop(int64_t rounds, float* sink) {
  __m256 sums[12];
  for (__m256& sum : sums) sum = _mm256_set1_ps(1.0f);
  const __m256 y = _mm256_set1_ps(0.001f);
  __m256 x = _mm256_set1_ps(0.999f);
  ATHANOR_UNKNOWN(x);
  for (int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 16
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, x, y);
  for (const __m256& sum : sums) _mm256_storeu_ps(sink, _mm256_add_ps(_mm256_loadu_ps(sink), sum));
  return 12.0 * 8 * 2;
}

__attribute__((target("avx512f"))) double avx512_loop(int64_t rounds, float* sink) {
  __m512 sums[16];
  for (__m512& sum : sums) sum = _mm512_set1_ps(1.0f);
  const __m512 y = _mm512_set1_ps(0.001f);
  __m512 x = _mm512_set1_ps(0.999f);
  ATHANOR_UNKNOWN(x);
  for (int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 16
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, x, y);
  for (const __m512& sum : sums) _mm512_storeu_ps(sink, _mm512_add_ps(_mm512_loadu_ps(sink), sum));
  return 16.0 * 16 * 2;
}

__attribute__((target("avx512f,avx512bf16"))) double avx512_bf16_loop(int64_t rounds, float* sink) {
  __m512 sums[16];
  for (__m512& sum : sums) sum = _mm512_set1_ps(1.0f);
  __m512i factor = _mm512_set1_epi32(0x3f80);
  ATHANOR_UNKNOWN(factor);
  const auto x = reinterpret_cast<__m512bh>(factor),
             y = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3a80));
  for (int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 16
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, x, y);
  for (const __m512& sum : sums) _mm512_storeu_ps(sink, _mm512_add_ps(_mm512_loadu_ps(sink), sum));
  return 16.0 * 16 * 2 * 2;
}

// Four accumulator tiles of 16 x 16 f32, products of tiles of 16 x 32 bf16.
__attribute__((target("amx-tile,amx-bf16"))) double amx_loop(int64_t rounds, float*) {
  _tile_loadconfig(&amx::kConfig);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int64_t i = 0; i < rounds; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return 4.0 * 16 * 16 * 32 * 2;
}

// The loops to try; the fastest is the ceiling. Not every processor gains by multiplying bf16 in its vector registers.
std::vector<Loop> loops_for(Isa isa, Dtype dtype) {
  if (dtype == Dtype::bf16 && isa >= Isa::amx) return {amx_loop};
  if (dtype == Dtype::bf16 && isa >= Isa::avx512_bf16) return {avx512_bf16_loop, avx512_loop};
  if (isa >= Isa::avx512) return {avx512_loop};
  return {isa >= Isa::avx2 ? avx2_loop : sse_loop};
}

// One chunk of a copy with streaming stores. A plain store first reads the line that it overwrites, a third of the
// traffic for nothing. Several streams side by side, two lines of each at a time, keep more reads in flight than one
// stream (measured: 1 stream 38, 4 streams 55, 8 streams 57 GB/s; memcpy 27).
constexpr int64_t kStreamBytes = 16384, kLineBytes = 64;
using CopyChunk = void (*)(std::byte* to, const std::byte* from);

template <int kStreams>
void sse_copy(std::byte* to, const std::byte* from) {
  for (int64_t i = 0; i < kStreamBytes; i += 2 * kLineBytes)
#pragma GCC unroll 8
    for (int64_t stream = i; stream < kStreams * kStreamBytes; stream += kStreamBytes)
#pragma GCC unroll 8
      for (int64_t at = stream; at < stream + 2 * kLineBytes; at += 16)
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                         _mm_load_si128(reinterpret_cast<const __m128i*>(from + at)));
}

template <int kStreams>
__attribute__((target("avx2"))) void avx2_copy(std::byte* to, const std::byte* from) {
  for (int64_t i = 0; i < kStreamBytes; i += 2 * kLineBytes)
#pragma GCC unroll 8
    for (int64_t stream = i; stream < kStreams * kStreamBytes; stream += kStreamBytes)
#pragma GCC unroll 4
      for (int64_t at = stream; at < stream + 2 * kLineBytes; at += 32)
        _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at),
                            _mm256_load_si256(reinterpret_cast<const __m256i*>(from + at)));
}

template <int kStreams>
__attribute__((target("avx512f"))) void avx512_copy(std::byte* to, const std::byte* from) {
  for (int64_t i = 0; i < kStreamBytes; i += 2 * kLineBytes)
#pragma GCC unroll 8
    for (int64_t stream = i; stream < kStreams * kStreamBytes; stream += kStreamBytes)
#pragma GCC unroll 2
      for (int64_t at = stream; at < stream + 2 * kLineBytes; at += 64)
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at),
                            _mm512_load_si512(reinterpret_cast<const __m512i*>(from + at)));
}

void cached_copy(std::byte* to, const std::byte* from) {
  std::memcpy(to, from, static_cast<size_t>(kStreamBytes));
}

struct CopyWay {
  CopyChunk copy;
  int64_t chunk_bytes;
};

std::array<CopyWay, 4> copies_for(Isa isa) {
  const auto ways = [](CopyChunk one, CopyChunk four, CopyChunk eight) {
    return std::array<CopyWay, 4>{{{cached_copy, kStreamBytes},
                                   {one, kStreamBytes},
                                   {four, 4 * kStreamBytes},
                                   {eight, 8 * kStreamBytes}}};
  };
  if (isa >= Isa::avx512) return ways(avx512_copy<1>, avx512_copy<4>, avx512_copy<8>);
  if (isa >= Isa::avx2) return ways(avx2_copy<1>, avx2_copy<4>, avx2_copy<8>);
  return ways(sse_copy<1>, sse_copy<4>, sse_copy<8>);
}

double thread_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double measure(Queue& queue, Loop loop) {
  const int threads = queue.num_threads();
  constexpr int kSinkFloats = 64;  // a few cache lines for each thread
  std::array<float, 64 * kSinkFloats> sinks{};
  // The machine may be busy: the ceiling is the best of some runs of a millisecond, and of more runs if threads have to
  // wait for a processor. The length of a run is measured in processor time, so that waiting does not count as work.
  constexpr int kLeastRuns = 8;
  constexpr double kRunSeconds = 0.001;
  constexpr int64_t kMostRounds = int64_t{1} << 22;  // wherever the clock of a thread stands still
  double best = 0.0;
  int64_t rounds = 1000;
  const double until = now_seconds() + 0.012;
  for (int run = 0; run < kLeastRuns || now_seconds() < until;) {
    double operations = 0.0, worked = 0.0;
    const double start = now_seconds();
    queue.parallel_for(threads, [&](int64_t thread) {
      const double began = thread_cpu_seconds();
      const double each = loop(rounds, sinks.data() + (thread % 64) * kSinkFloats);
      if (thread != 0) return;
      operations = each;
      worked = thread_cpu_seconds() - began;
    });
    best = std::max(best, operations * static_cast<double>(rounds) * threads / (now_seconds() - start));
    if (worked < kRunSeconds && rounds < kMostRounds)
      rounds *= 2;
    else
      ++run;
  }
  return best;
}

}  // namespace

double measure_peak_flops(Queue& queue, Dtype dtype) {
  if (queue.device() == Device::cuda) return measure_device_flops(cuda(queue), dtype);
  if (queue.device() != Device::cpu) return 0.0;
  double best = 0.0;
  for (const Loop loop : loops_for(queue.isa(), dtype)) best = std::max(best, measure(queue, loop));
  return best;
}

double measure_copy_bandwidth(Queue& queue) {
  if (queue.device() == Device::cuda) return measure_device_copy(cuda(queue));
  if (queue.device() != Device::cpu) return 0.0;
  constexpr int64_t kBytes = int64_t{256} << 20, kBlock = int64_t{1} << 20;
  Arena arena(queue);
  const auto from = arena.allocate(kBytes, Category::workspace),
             to = arena.allocate(kBytes, Category::workspace);
  queue.parallel_for(kBytes / kBlock, [&](int64_t block) {  // pages come with the first touch
    std::memset(from->data() + block * kBlock, 1, kBlock);
    std::memset(to->data() + block * kBlock, 2, kBlock);
  });
  // The machine may be busy: the ceiling is the best of several runs of each way to copy.
  double best = 0.0;
  for (int round = 0; round < 3; ++round)
    for (const CopyWay& way : copies_for(queue.isa())) {
      const double start = now_seconds();
      queue.parallel_for(kBytes / kBlock, [&](int64_t block) {
        for (int64_t at = block * kBlock; at < (block + 1) * kBlock; at += way.chunk_bytes)
          way.copy(to->data() + at, from->data() + at);
        _mm_sfence();
      });
      best = std::max(best, 2.0 * static_cast<double>(kBytes) / (now_seconds() - start));
      check(std::memcmp(to->data(), from->data(), kBlock) == 0, "copy bandwidth: the copy differs");
      std::memset(to->data(), 2, kBlock);
    }
  return best;
}

}  // namespace athanor::kernels
