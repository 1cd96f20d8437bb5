#include "athanor/text/trainers/training_words.h"

#include <atomic>
#include <utility>

#include "athanor/text/unicode.h"

namespace athanor::text::trainers {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 18;
constexpr size_t kPendingBytes = size_t{1} << 24;

bool is_letter_before(std::string_view text, size_t at) {
  for (size_t size = 1; size <= 4 && size <= at; ++size) {
    const CodePoint c = decode_utf8(text, at - size);
    if (c.size == size && c.value != kInvalidByte) return is_letter(c.value);
  }
  return false;
}

void cut(std::string_view document, std::vector<std::string_view>& blocks) {
  const auto may_cut = [&](size_t i) {
    return (document[i] == ' ' || document[i] == '\n') && is_letter_before(document, i);
  };
  while (document.size() > kBlockBytes) {
    size_t at = kBlockBytes;
    while (at < document.size() && !may_cut(at)) ++at;
    blocks.push_back(document.substr(0, at));
    document.remove_prefix(at);
  }
  if (!document.empty()) blocks.push_back(document);
}

}  // namespace

WordSplitter split_by(WordPattern pattern) {
  return [pattern](std::string_view text, const WordSink& put) {
    for (size_t at = 0; at < text.size();) {
      const size_t end = word_end(pattern, text, at);
      put(text.substr(at, end - at));
      at = end;
    }
  };
}

void split_chars(std::string_view text, const WordSink& put) {
  for (size_t at = 0; at < text.size();) {
    const size_t size = decode_utf8(text, at).size;
    put(text.substr(at, size));
    at += size;
  }
}

CorpusWords::CorpusWords(WordSplitter splitter, ThreadPool& pool)
    : splitter_(std::move(splitter)), pool_(pool), lanes_(static_cast<size_t>(pool.num_threads())) {}

void CorpusWords::add(std::string_view document) {
  bytes_read_ += static_cast<int64_t>(document.size());
  if (document.size() >= kPendingBytes) return count_blocks({document});
  pending_.emplace_back(document);
  pending_bytes_ += document.size();
  if (pending_bytes_ >= kPendingBytes) count_pending();
}

void CorpusWords::count_pending() {
  count_blocks({pending_.begin(), pending_.end()});
  pending_.clear();
  pending_bytes_ = 0;
}

void CorpusWords::count_blocks(const std::vector<std::string_view>& documents) {
  std::vector<std::string_view> blocks;
  for (const std::string_view document : documents) cut(document, blocks);
  std::atomic<size_t> next{0};
  pool_.parallel_for(static_cast<int64_t>(lanes_.size()), [&](int64_t lane) {
    WordCounts& counts = lanes_[static_cast<size_t>(lane)];
    for (size_t block; (block = next.fetch_add(1)) < blocks.size();)
      splitter_(blocks[block], [&](std::string_view word) { counts.add(word, 1); });
  });
}

WordCounts CorpusWords::finish() {
  count_pending();
  WordCounts total = std::move(lanes_[0]);
  for (size_t lane = 1; lane < lanes_.size(); ++lane) total.add_all(std::exchange(lanes_[lane], {}));
  return total;
}

}  // namespace athanor::text::trainers
