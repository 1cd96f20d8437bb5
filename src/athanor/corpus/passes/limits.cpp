#include "athanor/corpus/passes/limits.h"

#include <algorithm>

#include "athanor/base/cpu.h"

namespace athanor::corpus::passes {
namespace {

// A worker holds some MiB beside its document: windows of zstd, buffers, tables.
constexpr uint64_t kFixedWorkerBytes = uint64_t{16} << 20;
// The text, its record, its words and their n-grams: at most so many bytes per byte of text.
constexpr uint64_t kBytesPerTextByte = 24;
constexpr uint64_t kLeastDocumentBytes = uint64_t{64} << 10;
constexpr uint64_t kMostDocumentBytes = uint64_t{256} << 20;

}  // namespace

int num_workers(const CorpusConfig& config) {
  const int wanted = config.workers > 0 ? static_cast<int>(config.workers) : num_usable_cpus();
  const uint64_t each = kFixedWorkerBytes + kBytesPerTextByte * max_document_bytes(config);
  const uint64_t most =
      static_cast<uint64_t>(config.memory) / each;  // one of them for the process that builds
  return static_cast<int>(
      std::clamp<uint64_t>(most - std::min<uint64_t>(most, 1), 1, static_cast<uint64_t>(wanted)));
}

uint64_t worker_bytes(const CorpusConfig& config) {
  return static_cast<uint64_t>(config.memory) / static_cast<uint64_t>(num_workers(config) + 1);
}

// Of the memory alone: the corpus is the same for any number of workers.
uint64_t max_document_bytes(const CorpusConfig& config) {
  if (config.max_document > 0) return static_cast<uint64_t>(config.max_document);
  return std::clamp(static_cast<uint64_t>(config.memory) / 256, kLeastDocumentBytes, kMostDocumentBytes);
}

}  // namespace athanor::corpus::passes
