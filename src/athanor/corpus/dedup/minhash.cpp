#include "athanor/corpus/dedup/minhash.h"

#include <xxhash.h>

#include <algorithm>

#include "athanor/corpus/dedup/key_methods.h"
#include "athanor/corpus/dedup/random_state.h"
#include "athanor/corpus/dedup/sha1.h"
#include "athanor/corpus/dedup/words.h"

namespace athanor::corpus::dedup {
namespace {

constexpr size_t kShingleBlock =
    512;  // 4 KiB: they stay in the first cache while all functions pass over them

// value mod 2^61 - 1: 2^61 counts as 1.
inline uint64_t mod_mersenne61(uint64_t value) {
  const uint64_t folded = (value & kMersenne61) + (value >> 61);
  return std::min(folded, folded - kMersenne61);  // the difference wraps to a large number if it is negative
}

// Four running minima: one alone would wait for itself.
uint64_t least_image(uint64_t a, uint64_t b, const uint64_t* shingles, size_t count, uint64_t least) {
  uint64_t least1 = least, least2 = least, least3 = least;
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    least = std::min(least, mod_mersenne61(a * shingles[i] + b));
    least1 = std::min(least1, mod_mersenne61(a * shingles[i + 1] + b));
    least2 = std::min(least2, mod_mersenne61(a * shingles[i + 2] + b));
    least3 = std::min(least3, mod_mersenne61(a * shingles[i + 3] + b));
  }
  for (; i < count; ++i) least = std::min(least, mod_mersenne61(a * shingles[i] + b));
  return std::min(std::min(least, least1), std::min(least2, least3));
}

class MinHashKeys final : public KeyMethod {
 public:
  explicit MinHashKeys(const DedupOptions& options) : minhash_(options) {}
  bool cuts_spans() const override { return false; }
  void keys(const Document& document, std::vector<SpanKey>& out) const override {
    const uint32_t size = checked_size(document.text);
    out.clear();
    for (const Key& key : minhash_.bucket_keys(minhash_.signature(document.text)))
      out.push_back({key, 0, size});
  }

 private:
  MinHash minhash_;
};

}  // namespace

MinHash::MinHash(const DedupOptions& options)
    : ngram_(static_cast<size_t>(options.ngram)),
      hashes_per_bucket_(static_cast<size_t>(options.hashes_per_bucket)),
      sha1_(options.hash == "sha1") {
  check_options(options);
  const auto hashes = static_cast<size_t>(options.buckets * options.hashes_per_bucket);
  RandomState random(static_cast<uint32_t>(options.seed));
  for (size_t i = 0; i < hashes; ++i) a_.push_back(random.below_from(1, kMersenne61));
  for (size_t i = 0; i < hashes; ++i) b_.push_back(random.below_from(0, kMersenne61));
}

std::vector<uint64_t> MinHash::shingles(std::string_view text) const {
  const Words words = split_words(simplifier_.simplify(text));
  std::vector<uint64_t> out;
  if (words.count() == 0 || (sha1_ && words.count() < ngram_)) return out;
  const size_t length = std::min(ngram_, words.count());
  out.resize(words.count() - length + 1);
  if (sha1_) {
    Sha1 sha1;
    for (size_t i = 0; i < out.size(); ++i) out[i] = sha1.first_eight_bytes(words.stretch(i, length));
  } else {
    for (size_t i = 0; i < out.size(); ++i) {
      const std::string_view gram = words.stretch(i, length);
      out[i] = XXH64(gram.data(), gram.size(), 0);
    }
  }
  return out;
}

std::vector<uint64_t> MinHash::signature_of(std::span<const uint64_t> shingles) const {
  std::vector<uint64_t> least;
  if (shingles.empty()) return least;
  least.assign(a_.size(), ~uint64_t{0});
  for (size_t from = 0; from < shingles.size(); from += kShingleBlock) {
    const size_t count = std::min(kShingleBlock, shingles.size() - from);
    for (size_t i = 0; i < least.size(); ++i)
      least[i] = least_image(a_[i], b_[i], shingles.data() + from, count, least[i]);
  }
  return least;
}

std::vector<Key> MinHash::bucket_keys(std::span<const uint64_t> signature) const {
  std::vector<Key> keys;
  for (size_t from = 0; from < signature.size(); from += hashes_per_bucket_) {
    const auto* bytes =
        reinterpret_cast<const char*>(signature.data() + from);  // little endian, as all that we run on
    keys.push_back(hash_key({bytes, hashes_per_bucket_ * sizeof(uint64_t)}, keys.size()));
  }
  return keys;
}

std::unique_ptr<KeyMethod> make_minhash_keys(const DedupOptions& options) {
  return std::make_unique<MinHashKeys>(options);
}

}  // namespace athanor::corpus::dedup
