#include "athanor/corpus/dedup/minhash_rows.h"

#define ATHANOR_JOIN(a, b) a##b
#define ATHANOR_TABLE(isa) ATHANOR_JOIN(isa, _minhash_rows)

namespace athanor::corpus::dedup {
namespace {

// A register of them: what is wider is spilled.
#if defined(__AVX512F__)
constexpr size_t kLanes = 8;
#elif defined(__AVX2__)
constexpr size_t kLanes = 4;
#else
constexpr size_t kLanes = 2;
#endif
static_assert(kMinHashLanes % kLanes == 0);
using Lanes = uint64_t __attribute__((vector_size(kLanes * sizeof(uint64_t))));
using SignedLanes = int64_t __attribute__((vector_size(kLanes * sizeof(int64_t))));

constexpr int kModulusBits = 61;
constexpr uint64_t kModulus = (uint64_t{1} << kModulusBits) - 1;
constexpr int kAtOnce = 2;  // hashes: what is loaded serves both, and neither minimum waits for the other

// All images are below 2^63, so that comparisons may be signed: older processors have no others.
inline void take_least(SignedLanes& least, const Lanes& a, const Lanes& b, const Lanes& x) {
  const Lanes value = a * x + b;
  const Lanes folded = (value & kModulus) + (value >> kModulusBits);  // 2^61 counts as 1
  const SignedLanes high = reinterpret_cast<const SignedLanes&>(folded);
  const SignedLanes low = high - static_cast<int64_t>(kModulus);
  const SignedLanes image = low < 0 ? high : low;
  least = image < least ? image : least;
}

uint64_t least_of(const SignedLanes& lanes, uint64_t least) {
  for (size_t i = 0; i < kLanes; ++i) {
    const auto lane = static_cast<uint64_t>(lanes[i]);
    least = lane < least ? lane : least;
  }
  return least;
}

template <int kHashes>
void pass(const uint64_t* a, const uint64_t* b, const uint64_t* x, size_t count, uint64_t* least) {
  Lanes as[kHashes], bs[kHashes];
  SignedLanes leasts[kHashes];
  for (int h = 0; h < kHashes; ++h) {
    as[h] = a[h] + Lanes{};
    bs[h] = b[h] + Lanes{};
    leasts[h] = INT64_MAX + SignedLanes{};
  }
  for (size_t i = 0; i < count; i += kLanes) {
    Lanes here;
    __builtin_memcpy(&here, x + i, sizeof here);
    for (int h = 0; h < kHashes; ++h) take_least(leasts[h], as[h], bs[h], here);
  }
  for (int h = 0; h < kHashes; ++h) least[h] = least_of(leasts[h], least[h]);
}

void least_images(const uint64_t* a, const uint64_t* b, size_t num_hashes, const uint64_t* x, size_t count,
                  uint64_t* least) {
  size_t i = 0;
  for (; i + kAtOnce <= num_hashes; i += kAtOnce) pass<kAtOnce>(a + i, b + i, x, count, least + i);
  for (; i < num_hashes; ++i) pass<1>(a + i, b + i, x, count, least + i);
}

}  // namespace

extern constexpr MinHashRows ATHANOR_TABLE(ATHANOR_ISA) = {.least_images = least_images};

}  // namespace athanor::corpus::dedup
