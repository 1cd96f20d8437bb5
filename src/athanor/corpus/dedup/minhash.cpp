#include "athanor/corpus/dedup/minhash.h"

#include <xxhash.h>

#include <algorithm>
#include <array>

#include "athanor/base/cpu.h"
#include "athanor/corpus/dedup/key_methods.h"
#include "athanor/corpus/dedup/minhash_rows.h"
#include "athanor/corpus/dedup/random_state.h"
#include "athanor/corpus/dedup/sha1.h"
#include "athanor/corpus/dedup/words.h"

namespace athanor::corpus::dedup {
namespace {

constexpr size_t kShingleBlock =
    512;  // 4 KiB: they stay in the first cache while all functions pass over them

const MinHashRows& best_rows() {
  if (best_isa() >= Isa::avx512) return avx512_minhash_rows;
  return best_isa() >= Isa::avx2 ? avx2_minhash_rows : generic_minhash_rows;
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
  const MinHashRows& rows = best_rows();
  alignas(kMinHashLanes * sizeof(uint64_t)) std::array<uint64_t, kShingleBlock> block;
  while (!shingles.empty()) {
    const size_t count = std::min(kShingleBlock, shingles.size());
    const auto end = std::copy_n(shingles.begin(), count, block.begin());
    const size_t whole = (count + kMinHashLanes - 1) / kMinHashLanes * kMinHashLanes;
    std::fill_n(end, whole - count, block[count - 1]);
    rows.least_images(a_.data(), b_.data(), least.size(), block.data(), whole, least.data());
    shingles = shingles.subspan(count);
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
