// Golden figures were worked out with Python: hashlib's SHA-1, XXH64 and the Mersenne Twister written out from their
// definitions. The constants of seed 1 are those of datatrove's runs.
#include "athanor/corpus/dedup/minhash.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>
#include <string>

#include "athanor/base/cpu.h"
#include "athanor/corpus/dedup/key_methods.h"
#include "athanor/corpus/dedup/minhash_rows.h"
#include "athanor/corpus/dedup/random_state.h"
#include "athanor/corpus/dedup/sha1.h"

namespace athanor::tests::dedup_minhash_test {
namespace {

using Hashes = std::vector<uint64_t>;

const char* const kText =
    "The quick brown fox jumps over the lazy dog, and in 1999 it cost \xC2\xA3"
    "3.50 \xE2\x80\x94 caf\xC3\xA9 na\xC3\xAFve "
    "\xE2\x80\x9CR\xC3\xA9sum\xC3\xA9\xE2\x80\x9D!";

uint64_t folded(const Hashes& hashes) {
  return std::accumulate(hashes.begin(), hashes.end(), uint64_t{0}, std::bit_xor<>());
}

TEST(MinHashTest, ConstantsOfSeedOneAreNumpys) {
  const MinHash minhash(DedupOptions{});
  ASSERT_EQ(minhash.a().size(), 112U);
  ASSERT_EQ(minhash.b().size(), 112U);
  EXPECT_EQ(minhash.a()[0], 775169054918279404U);
  EXPECT_EQ(minhash.a()[1], 1758426461858698313U);
  EXPECT_EQ(minhash.a()[111], 223865076026037746U);
  EXPECT_EQ(minhash.b()[0], 1062448801025099917U);
  EXPECT_EQ(minhash.b()[1], 1324811268927594100U);
  EXPECT_EQ(minhash.b()[111], 1097409548522419201U);
}

TEST(MinHashTest, RandomStateInSmallRanges) {
  // RandomState(1).randint(0, 10, size=5, dtype=uint64) is 5, 8, 9, 5, 0.
  RandomState random(1);
  Hashes drawn;
  for (int i = 0; i < 5; ++i) drawn.push_back(random.below_from(0, 10));
  EXPECT_EQ(drawn, Hashes({5, 8, 9, 5, 0}));
  EXPECT_EQ(random.below_from(7, 8), 7U);
}

TEST(MinHashTest, GoldenSignatureOfSha1) {
  const MinHash minhash({.hash = "sha1"});
  const Hashes shingles = minhash.shingles(kText);
  ASSERT_EQ(shingles.size(), 14U);
  EXPECT_EQ(shingles.front(), 12313522834835307089U);
  EXPECT_EQ(shingles.back(), 1548519569528597187U);
  const Hashes signature = minhash.signature(kText);
  ASSERT_EQ(signature.size(), 112U);
  EXPECT_EQ(signature[0], 173305324221625427U);
  EXPECT_EQ(signature[1], 284080765670708113U);
  EXPECT_EQ(signature[7], 240755170575130890U);
  EXPECT_EQ(signature[8], 56563287695054797U);
  EXPECT_EQ(signature[55], 19740365112324758U);
  EXPECT_EQ(signature[111], 800584869340422436U);
  EXPECT_EQ(folded(signature), 186270485222537255U);
}

TEST(MinHashTest, GoldenSignatureOfXxh64) {
  const MinHash minhash(DedupOptions{});
  const Hashes shingles = minhash.shingles(kText);
  ASSERT_EQ(shingles.size(), 14U);
  EXPECT_EQ(shingles.front(), 7797000677988824208U);
  EXPECT_EQ(shingles.back(), 18208032261418026753U);
  const Hashes signature = minhash.signature(kText);
  ASSERT_EQ(signature.size(), 112U);
  EXPECT_EQ(signature[0], 85330943174081874U);
  EXPECT_EQ(signature[1], 241979079837360041U);
  EXPECT_EQ(signature[7], 55760989810640210U);
  EXPECT_EQ(signature[8], 46099613652370169U);
  EXPECT_EQ(signature[55], 75153178888354806U);
  EXPECT_EQ(signature[111], 3963570588256049U);
  EXPECT_EQ(folded(signature), 1093121249176942341U);
}

// With the remainder as the language has it.
uint64_t plain_hash(uint64_t a, uint64_t b, uint64_t x) {
  return (x * a + b) % kMersenne61;
}

TEST(MinHashTest, SignaturesEqualThePlainFormula) {
  const MinHash minhash(DedupOptions{});
  std::mt19937_64 random(3);
  for (const size_t count : {1, 2, 3, 4, 5, 7, 511, 512, 513, 1030}) {
    Hashes shingles;
    for (size_t i = 0; i < count; ++i) shingles.push_back(random());
    const Hashes signature = minhash.signature_of(shingles);
    for (size_t i = 0; i < signature.size(); ++i) {
      uint64_t least = UINT64_MAX;
      for (const uint64_t x : shingles)
        least = std::min(least, plain_hash(minhash.a()[i], minhash.b()[i], x));
      ASSERT_EQ(signature[i], least) << count << " shingles, hash " << i;
    }
  }
}

TEST(MinHashTest, RemaindersAtTheEdges) {
  const MinHash minhash({.buckets = 1, .hashes_per_bucket = 1});
  const uint64_t a = minhash.a()[0], b = minhash.b()[0];
  ASSERT_EQ(a % 8, 4U);  // 775169054918279404
  const uint64_t odd = a / 4;
  uint64_t inverse = odd;  // mod 2^64, by Newton
  for (int i = 0; i < 6; ++i) inverse *= 2 - odd * inverse;
  int looked_at = 0;
  for (const uint64_t image :
       {uint64_t{0}, kMersenne61 - 1, kMersenne61, kMersenne61 + 1, 7 * kMersenne61, 8 * kMersenne61 - 1,
        8 * kMersenne61, UINT64_MAX, UINT64_MAX - 6, UINT64_MAX - 7}) {
    for (uint64_t near = image; near != image + 4; ++near) {
      if ((near - b) % 4 != 0) continue;
      const uint64_t x = (near - b) / 4 * inverse;
      const uint64_t shifted = x * a + b;
      EXPECT_EQ(minhash.signature_of(Hashes{x})[0], shifted % kMersenne61);
      ++looked_at;
    }
  }
  EXPECT_EQ(looked_at, 10);
}

// With a = 1 and b = 0 an image is its x mod 2^61 - 1: those around the multiples are tried one by one.
TEST(MinHashTest, EveryInstructionSetTakesTheSameRemainders) {
  std::vector<const MinHashRows*> tables = {&generic_minhash_rows};
  if (best_isa() >= Isa::avx2) tables.push_back(&avx2_minhash_rows);
  if (best_isa() >= Isa::avx512) tables.push_back(&avx512_minhash_rows);
  Hashes edges;
  for (uint64_t multiple = 0; multiple <= 8; ++multiple)
    for (uint64_t near = 0; near < 10; ++near) edges.push_back(multiple * kMersenne61 + near - 5);
  std::mt19937_64 random(5);
  for (const MinHashRows* rows : tables) {
    for (const uint64_t edge : edges) {
      const uint64_t a = 1, b = 0;
      const Hashes same(kMinHashLanes, edge);
      uint64_t least = UINT64_MAX;
      rows->least_images(&a, &b, 1, same.data(), same.size(), &least);
      EXPECT_EQ(least, edge % kMersenne61) << edge;
    }
    for (const size_t num_hashes : {1, 2, 3, 112})
      for (const size_t count : {8, 16, 512}) {
        Hashes a(num_hashes), b(num_hashes), x(count), least(num_hashes, kMersenne61 / 64), expected = least;
        for (Hashes* values : {&a, &b, &x})
          for (uint64_t& value : *values) value = random();
        for (size_t i = 0; i < num_hashes; ++i)
          for (const uint64_t each : x) expected[i] = std::min(expected[i], plain_hash(a[i], b[i], each));
        rows->least_images(a.data(), b.data(), num_hashes, x.data(), count, least.data());
        EXPECT_EQ(least, expected) << num_hashes << " hashes of " << count;
      }
  }
}

TEST(MinHashTest, Sha1OfAKnownText) {
  Sha1 sha1;
  // SHA-1 of "abc" begins with a9993e36 4706816a.
  EXPECT_EQ(sha1.first_eight_bytes("abc"), 0x6A810647363E99A9U);
  EXPECT_EQ(sha1.first_eight_bytes(""), 0x0D4B6B5EEEA339DAU);
  EXPECT_EQ(sha1.first_eight_bytes("abc"), 0x6A810647363E99A9U);
}

TEST(MinHashTest, FewerWordsThanAnNgram) {
  const MinHash ours(DedupOptions{}), theirs({.hash = "sha1"});
  for (const char* text : {"", " ", "...", "\n\t!"}) {
    EXPECT_EQ(ours.signature(text), Hashes());
    EXPECT_EQ(theirs.signature(text), Hashes());
  }
  EXPECT_EQ(ours.shingles("One.").size(), 1U);
  EXPECT_EQ(ours.shingles("one two three four").size(), 1U);
  EXPECT_EQ(ours.signature("One, two!"), ours.signature("one two"));
  EXPECT_NE(ours.signature("one two"), ours.signature("one two three"));
  EXPECT_EQ(theirs.shingles("one two three four").size(), 0U);
  EXPECT_EQ(theirs.shingles("one two three four five").size(), 1U);
  EXPECT_EQ(ours.shingles("one two three four five").size(), 1U);
  EXPECT_EQ(ours.shingles("one two three four five six").size(), 2U);
}

TEST(MinHashTest, ChineseHasAWordForEachIdeograph) {
  const MinHash minhash(DedupOptions{});
  const std::string seven =
      "\xE6\x98\xA5\xE7\x9C\xA0\xE4\xB8\x8D\xE8\xA7\x89\xE6\x99\x93\xE5\xA4\x84\xE5\xA4\x84";
  EXPECT_EQ(minhash.shingles(seven).size(), 3U);
  const std::string spaced =
      "\xE6\x98\xA5 "
      "\xE7\x9C\xA0\xEF\xBC\x8C\xE4\xB8\x8D\xE8\xA7\x89\xE6\x99\x93\xE3\x80\x82\xE5\xA4\x84\xE5\xA4\x84";
  EXPECT_EQ(minhash.signature(seven), minhash.signature(spaced));
}

TEST(MinHashTest, OtherSeedsAndShapes) {
  EXPECT_NE(MinHash({.seed = 2}).signature(kText), MinHash(DedupOptions{}).signature(kText));
  const MinHash small({.buckets = 3, .hashes_per_bucket = 2, .ngram = 1});
  EXPECT_EQ(small.signature(kText).size(), 6U);
  EXPECT_EQ(small.bucket_keys(small.signature(kText)).size(), 3U);
  EXPECT_EQ(small.shingles("a b a").size(), 3U);
  EXPECT_EQ(small.signature("a b a"), small.signature("b a"));
}

TEST(MinHashTest, KeysAreOnePerBucketAndTellBucketsApart) {
  const auto method = make_key_method({});
  EXPECT_FALSE(method->cuts_spans());
  std::vector<SpanKey> keys(3);
  method->keys({.text = kText}, keys);
  ASSERT_EQ(keys.size(), 14U);
  std::set<Key> different;
  for (const SpanKey& key : keys) {
    different.insert(key.key);
    EXPECT_EQ(key.begin, 0U);
    EXPECT_EQ(key.end, std::string(kText).size());
  }
  EXPECT_EQ(different.size(), 14U);
  const MinHash minhash(DedupOptions{});
  const std::vector<Key> same = minhash.bucket_keys(Hashes(112, 5));  // equal hashes in every bucket
  EXPECT_EQ(std::set<Key>(same.begin(), same.end()).size(), 14U);
  method->keys({.text = "?"}, keys);
  EXPECT_TRUE(keys.empty());
}

TEST(MinHashTest, AKeyChangesWithItsOwnBucketOnly) {
  const MinHash minhash(DedupOptions{});
  Hashes signature = minhash.signature(kText);
  const std::vector<Key> before = minhash.bucket_keys(signature);
  for (size_t i = 0; i < signature.size(); ++i) {
    signature[i] ^= 1;
    const std::vector<Key> after = minhash.bucket_keys(signature);
    signature[i] ^= 1;
    for (size_t bucket = 0; bucket < before.size(); ++bucket)
      EXPECT_EQ(before[bucket] == after[bucket], bucket != i / 8) << i;
  }
}

}  // namespace
}  // namespace athanor::tests::dedup_minhash_test
