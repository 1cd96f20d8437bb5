#include "athanor/base/block_checksum.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace athanor::tests::block_checksum_test {
namespace {

using Words = std::vector<uint32_t>;

Words random_words(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Words words(count);
  for (uint32_t& word : words) word = static_cast<uint32_t>(random());
  return words;
}

// Floats of one size and both signs: words that differ in their highest bit alone.
Words signs(size_t count, uint32_t seed) {
  Words words = random_words(count, seed);
  for (uint32_t& word : words) word = (word & 0x80000000u) | 0x3f800000u;
  return words;
}

uint64_t checksum(const Words& words, uint64_t index = 0) {
  return block_checksum(words.data(), 4 * words.size(), index);
}

// The definition byte by byte: each adds itself times 256^place to a number, and so to the number's upper half.
uint64_t by_definition(const std::vector<unsigned char>& bytes, uint64_t index) {
  const uint64_t a[4] = {0x9e3779b97f4a7c15u, 0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu, 0xd6e8feb86659fd93u};
  const uint64_t K = (bytes.size() + 63) / 64 * 8;
  uint64_t sum = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    const uint64_t k = at / 8, place = at % 8, weight = a[k % 4] + 2 * (K / 4 - k / 4);
    sum += weight * (uint64_t{bytes[at]} << (8 * place));
    if (place >= 4) sum += weight * (uint64_t{bytes[at]} << (8 * (place - 4)));
  }
  const auto mix = [](uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    x ^= x >> 31;
    return x;
  };
  return mix(mix(sum + (index + 1) * a[0]) ^ bytes.size());
}

TEST(BlockChecksum, IsAsDefinedForAnySize) {
  std::mt19937 random(1);
  for (const size_t size : {0u, 1u, 2u, 3u, 4u, 5u, 63u, 64u, 1023u, 65533u, 65536u})
    for (const uint64_t index : {uint64_t{0}, uint64_t{1}, uint64_t{16383}, ~uint64_t{0}}) {
      std::vector<unsigned char> bytes(size);
      for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
      EXPECT_EQ(block_checksum(bytes.data(), size, index), by_definition(bytes, index)) << size;
    }
  const std::vector<unsigned char> ones(65536, 0xff);
  EXPECT_EQ(block_checksum(ones.data(), ones.size(), 3), by_definition(ones, 3));
}

TEST(BlockChecksum, AnyFlippedBitChangesIt) {
  for (Words words : {random_words(64, 1), signs(64, 2), Words(64, 0), Words(64, ~0u)}) {
    const uint64_t good = checksum(words);
    for (size_t i = 0; i < words.size(); ++i)
      for (int bit = 0; bit < 32; ++bit) {
        words[i] ^= 1u << bit;
        EXPECT_NE(checksum(words), good) << i << ' ' << bit;
        words[i] ^= 1u << bit;
      }
  }
  std::mt19937 random(3);
  Words words = random_words(16384, 4);
  const uint64_t good = checksum(words);
  for (int trial = 0; trial < 3000; ++trial) {
    const size_t i = random() % words.size();
    const uint32_t flip = 1u << (random() % 32);
    words[i] ^= flip;
    ASSERT_NE(checksum(words), good) << i;
    words[i] ^= flip;
  }
}

TEST(BlockChecksum, AnyTwoWordsThatChangePlacesChangeIt) {
  for (Words words : {random_words(96, 1), signs(96, 2)}) {
    const uint64_t good = checksum(words);
    for (size_t i = 0; i < words.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        if (words[i] == words[j]) continue;
        std::swap(words[i], words[j]);
        EXPECT_NE(checksum(words), good) << i << ' ' << j;
        std::swap(words[i], words[j]);
      }
  }
  // Words that differ in their highest bits alone, at distances of powers of two: sums mod 2^32 do not see those.
  Words words = signs(16384, 5);
  const uint64_t good = checksum(words);
  std::mt19937 random(6);
  for (int trial = 0; trial < 3000; ++trial) {
    const size_t distance = size_t{1} << (random() % 14), i = random() % (words.size() - distance);
    if (words[i] == words[i + distance]) continue;
    std::swap(words[i], words[i + distance]);
    ASSERT_NE(checksum(words), good) << i << ' ' << distance;
    std::swap(words[i], words[i + distance]);
  }
}

TEST(BlockChecksum, ABlockElsewhereOrOfAnotherSizeHasAnother) {
  for (const Words& words : {random_words(16384, 1), Words(16384, 0)}) {
    std::vector<uint64_t> all;
    for (uint64_t index = 0; index < 2000; ++index) all.push_back(checksum(words, index));
    std::sort(all.begin(), all.end());
    EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
    const auto size_bytes = 4 * words.size();
    EXPECT_NE(block_checksum(words.data(), size_bytes - 1, 0), checksum(words));
    EXPECT_NE(checksum(words), 0u);
  }
  EXPECT_EQ(num_checksum_blocks(0), 0u);
  EXPECT_EQ(num_checksum_blocks(65536), 1u);
  EXPECT_EQ(num_checksum_blocks(65537), 2u);
}

}  // namespace
}  // namespace athanor::tests::block_checksum_test
