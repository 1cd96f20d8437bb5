#include "athanor/base/random_rows.h"

#define ATHANOR_JOIN(a, b) a##b
#define ATHANOR_NAME(isa) ATHANOR_JOIN(isa, _random_rows)

namespace athanor::base {

namespace {

constexpr size_t kBlocks = 32, kPairs = 2 * kBlocks;  // at a time

void blocks(uint64_t key, uint64_t first, size_t num_blocks, uint32_t* words) {
  while (num_blocks > 0) {
    const size_t count = num_blocks < kBlocks ? num_blocks : kBlocks;
    uint32_t c[4][kBlocks] = {}, keys[2] = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
    for (size_t i = 0; i < kBlocks; ++i) {
      c[0][i] = static_cast<uint32_t>(first + i);
      c[1][i] = static_cast<uint32_t>((first + i) >> 32);
    }
    for (int round = 0; round < 10; ++round) {
      for (size_t i = 0; i < kBlocks; ++i) {
        const uint64_t a = uint64_t{0xD2511F53u} * c[0][i], b = uint64_t{0xCD9E8D57u} * c[2][i];
        c[0][i] = static_cast<uint32_t>(b >> 32) ^ c[1][i] ^ keys[0];
        c[1][i] = static_cast<uint32_t>(b);
        c[2][i] = static_cast<uint32_t>(a >> 32) ^ c[3][i] ^ keys[1];
        c[3][i] = static_cast<uint32_t>(a);
      }
      keys[0] += 0x9E3779B9u;
      keys[1] += 0xBB67AE85u;
    }
    for (size_t i = 0; i < count; ++i)
      for (size_t w = 0; w < 4; ++w) words[4 * i + w] = c[w][i];
    num_blocks -= count;
    first += count;
    words += 4 * count;
  }
}

// A double in [2^52, 2^53) has an integer in its low bits.
constexpr double kTwoTo52 = 0x1p52;
constexpr uint64_t kBitsOfTwoTo52 = 0x4330000000000000;

inline double from_bits(uint64_t bits) {
  return __builtin_bit_cast(double, bits);
}
inline double to_double(uint64_t integer) {  // below 2^52
  return from_bits(integer | kBitsOfTwoTo52) - kTwoTo52;
}

// ln of x in (0, 1], x = (word + 1) / 2^32. With 2^e m = word + 1, m in [sqrt 1/2, sqrt 2), and s = (m-1) / (m+1):
// ln m = 2 (s + s^3/3 + s^5/5 + ...).
inline double log_of(uint32_t word) {
  constexpr uint64_t kBitsOfOne = 0x3ff0000000000000, kBitsOfRoot = 0x3fe6a09e667f3bcd;  // sqrt 1/2
  const uint64_t bits = __builtin_bit_cast(uint64_t, to_double(word) + 1.0);
  const uint64_t shifted = bits + (kBitsOfOne - kBitsOfRoot);
  const double exponent = to_double(shifted >> 52) - (1023.0 + 32.0);
  const double m = from_bits((shifted & 0x000fffffffffffff) + kBitsOfRoot);
  const double s = (m - 1.0) / (m + 1.0), s2 = s * s;
  const double series =
      2.0 +
      s2 * (2.0 / 3 + s2 * (2.0 / 5 + s2 * (2.0 / 7 + s2 * (2.0 / 9 + s2 * (2.0 / 11 + s2 * (2.0 / 13))))));
  return exponent * 0.6931471805599453 + s * series;
}

void pairs(const uint32_t* words, size_t num_pairs, float std, float* out) {
  double radius[kPairs];
  for (size_t i = 0; i < num_pairs; ++i) radius[i] = __builtin_sqrt(-2.0 * log_of(words[2 * i]));
  for (size_t i = 0; i < num_pairs; ++i) {
    // The angle 2 pi word / 2^32 is a multiple of pi / 2 and a rest within pi / 4.
    const uint32_t word = words[2 * i + 1];
    const uint32_t quarter = (word + (1u << 29)) >> 30;
    const double x =
        static_cast<double>(static_cast<int32_t>(word - (quarter << 30))) * 0x1p-32 * 6.283185307179586;
    const double x2 = x * x;
    const double sine =
        x *
        (1.0 + x2 * (-1.0 / 6 + x2 * (1.0 / 120 + x2 * (-1.0 / 5040 + x2 * (1.0 / 362880 - x2 / 39916800)))));
    const double cosine =
        1.0 +
        x2 * (-1.0 / 2 +
              x2 * (1.0 / 24 +
                    x2 * (-1.0 / 720 + x2 * (1.0 / 40320 + x2 * (-1.0 / 3628800 + x2 * (1.0 / 479001600))))));
    // Quarter 1 turns (cos, sin) to (-sin, cos), and so on.
    const bool swapped = (quarter & 1) != 0;
    const double first = swapped ? sine : cosine, second = swapped ? cosine : sine;
    const double first_sign = ((quarter + 1) & 2) != 0 ? -1.0 : 1.0,
                 second_sign = (quarter & 2) != 0 ? -1.0 : 1.0;
    out[2 * i] = std * static_cast<float>(radius[i] * (first * first_sign));
    out[2 * i + 1] = std * static_cast<float>(radius[i] * (second * second_sign));
  }
}

void normals(const uint32_t* words, size_t num_pairs, float std, float* out) {
  for (; num_pairs >= kPairs; num_pairs -= kPairs, words += 2 * kPairs, out += 2 * kPairs)
    pairs(words, kPairs, std, out);
  pairs(words, num_pairs, std, out);
}

}  // namespace

extern const RandomRows ATHANOR_NAME(ATHANOR_ISA) = {.blocks = blocks, .normals = normals};

}  // namespace athanor::base
