// An n-gram model from any bytes. What opens must score a text; whatever is wrong is an Error. The checksum at the end
// would stop every mutant, so where the first byte is odd the right one is put in its place.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include "athanor/base/error.h"
#include "athanor/base/hash.h"
#include "athanor/corpus/perplexity/ngram_model.h"

namespace {

class BytesFile : public athanor::ReadableFile {
 public:
  explicit BytesFile(std::string bytes) : bytes_(std::move(bytes)) {}
  uint64_t size_bytes() const override { return bytes_.size(); }
  void read(uint64_t offset, void* data, size_t size_bytes) const override {
    if (offset > bytes_.size() || size_bytes > bytes_.size() - offset) std::abort();
    if (size_bytes > 0) std::memcpy(data, bytes_.data() + offset, size_bytes);
  }

 private:
  std::string bytes_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  constexpr size_t kChecksumBytes = 32;
  if (data[0] % 2 == 1 && bytes.size() >= kChecksumBytes) {
    athanor::Hash128 hash;
    hash.update(bytes.data(), bytes.size() - kChecksumBytes);
    bytes.replace(bytes.size() - kChecksumBytes, kChecksumBytes, hash.hex());
  }
  try {
    const athanor::NgramModel model = athanor::NgramModel::read(BytesFile(bytes), "fuzz");
    if (std::isnan(model.score("a b c\nb zebra a").log_prob)) std::abort();
  } catch (const athanor::Error&) {
    return 0;
  }
  return 0;
}
