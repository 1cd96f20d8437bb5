// Files of n-gram models, little-endian: the head below, for each order its number of n-grams (uint64), their entries by
// ascending keys, and 32 digits of the checksum of all bytes before.
#include <bit>
#include <cmath>
#include <cstring>

#include "athanor/base/check.h"
#include "athanor/base/format_version.h"
#include "athanor/base/hash.h"
#include "athanor/corpus/perplexity/ngram_model.h"

namespace athanor::corpus::perplexity {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr char kNgramMark[8] = {'A', 'T', 'H', 'N', 'G', 'R', 'A', 'M'};
constexpr uint32_t kNgramFormat = 1;
constexpr size_t kNgramChecksumBytes = 32;

struct NgramHead {
  char mark[8];
  uint32_t format;
  uint32_t order;
  uint64_t lowercase;
  uint64_t vocabulary;
  double log_unknown;
};
static_assert(sizeof(NgramHead) == 40);

}  // namespace

void NgramModel::write(base::Env& env, const std::string& path) const {
  NgramHead head{{},
                 kNgramFormat,
                 static_cast<uint32_t>(tables_.size()),
                 lowercase_ ? 1U : 0U,
                 static_cast<uint64_t>(vocabulary_),
                 log_unknown_};
  std::memcpy(head.mark, kNgramMark, sizeof head.mark);
  const std::string unfinished = path + ".unfinished";
  try {
    const auto file = env.create_large(unfinished);
    base::Hash128 hash;
    const auto append = [&](const void* data, size_t size_bytes) {
      hash.update(data, size_bytes);
      file->append(data, size_bytes);
    };
    append(&head, sizeof head);
    for (const NgramTable& table : tables_) {
      const uint64_t count = table.entries().size();
      append(&count, sizeof count);
    }
    for (const NgramTable& table : tables_)
      append(table.entries().data(), table.entries().size() * sizeof(NgramEntry));
    file->append(hash.hex());
    file->sync();
    file->close();
    env.rename(unfinished, path);
  } catch (...) {
    env.remove_all(unfinished);
    throw;
  }
  env.sync_folder(base::parent_folder(path));
}

NgramModel NgramModel::read(base::Env& env, const std::string& path) {
  return read(*env.open(path), path);
}

NgramModel NgramModel::read(const base::ReadableFile& file, const std::string& name) {
  const auto need = [&](bool holds, const char* what) {
    base::check(holds, "{}: got a damaged or foreign file ({}), expected an n-gram model of corpus builds",
                name, what);
  };
  const uint64_t size_bytes = file.size_bytes();
  NgramHead head{};
  need(size_bytes >= sizeof head + kNgramChecksumBytes, "it is too short");
  file.read(0, &head, sizeof head);
  need(std::memcmp(head.mark, kNgramMark, sizeof head.mark) == 0, "its beginning");
  base::check_format(name, head.format, kNgramFormat, "train the model again");
  need(head.order >= 1 && head.order <= kMostNgramOrder, "its order");
  need(head.lowercase <= 1, "its head");
  base::Hash128 hash;
  hash.update(&head, sizeof head);
  std::vector<uint64_t> counts(head.order);
  uint64_t at = sizeof head;
  uint64_t left = size_bytes - sizeof head - kNgramChecksumBytes;
  need(left >= counts.size() * sizeof counts[0], "it is too short");
  file.read(at, counts.data(), counts.size() * sizeof counts[0]);
  hash.update(counts.data(), counts.size() * sizeof counts[0]);
  at += counts.size() * sizeof counts[0];
  left -= counts.size() * sizeof counts[0];
  for (const uint64_t count : counts) {
    need(count <= left / sizeof(NgramEntry), "its length");
    left -= count * sizeof(NgramEntry);
  }
  need(left == 0, "its length");
  need(head.vocabulary == counts[0] && head.log_unknown <= 0.0 && std::isfinite(head.log_unknown),
       "its head");

  NgramModel model;
  model.lowercase_ = head.lowercase == 1;
  model.vocabulary_ = static_cast<int64_t>(head.vocabulary);
  model.log_unknown_ = head.log_unknown;
  for (const uint64_t count : counts) {
    std::vector<NgramEntry> entries(count);
    file.read(at, entries.data(), count * sizeof(NgramEntry));
    at += count * sizeof(NgramEntry);
    hash.update(entries.data(), count * sizeof(NgramEntry));
    for (size_t i = 0; i < count; ++i) {
      need(i == 0 || entries[i - 1].key < entries[i].key, "the order of its n-grams");
      need(std::isfinite(entries[i].log_prob) && std::isfinite(entries[i].log_backoff), "a probability");
    }
    model.tables_.emplace_back(std::move(entries));
  }
  char checksum[kNgramChecksumBytes];
  file.read(at, checksum, sizeof checksum);
  need(hash.hex() == std::string_view(checksum, sizeof checksum), "its checksum");
  return model;
}

}  // namespace athanor::corpus::perplexity
