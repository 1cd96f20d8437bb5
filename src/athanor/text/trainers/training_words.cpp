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

// Cuts before blanks at which `may_cut` holds.
template <typename MayCut>
void cut(std::string_view document, std::vector<std::string_view>& blocks, const MayCut& may_cut) {
  while (document.size() > kBlockBytes) {
    size_t at = kBlockBytes;
    while (at < document.size() && !((document[at] == ' ' || document[at] == '\n') && may_cut(document, at)))
      ++at;
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

CorpusWords::CorpusWords(WordSplitter splitter, ThreadPool& pool, TextRewriter normalizer, WordMemory memory)
    : splitter_(std::move(splitter)),
      normalizer_(std::move(normalizer)),
      pool_(pool),
      lane_bytes_(memory.memory_bytes == 0
                      ? UINT64_MAX
                      : static_cast<uint64_t>(memory.memory_bytes / 4 / pool.num_threads())),
      runs_(std::move(memory)),
      lanes_(static_cast<size_t>(pool.num_threads())) {}

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

// No normalizer looks or joins across the front of a blank, so a document can be normalized in parts. Words can end
// elsewhere than before a blank: what is counted is cut anew.
std::vector<std::string> CorpusWords::normalized(const std::vector<std::string_view>& documents) {
  std::vector<std::string_view> parts;
  std::vector<size_t> ends;  // of each document, in parts
  for (const std::string_view document : documents) {
    cut(document, parts, [](std::string_view, size_t) { return true; });
    ends.push_back(parts.size());
  }
  std::vector<std::string> rewritten(parts.size());
  pool_.parallel_for(static_cast<int64_t>(parts.size()), [&](int64_t part) {
    rewritten[static_cast<size_t>(part)] = normalizer_(parts[static_cast<size_t>(part)]);
  });
  std::vector<std::string> whole;
  size_t part = 0;
  for (const size_t end : ends)
    for (whole.emplace_back(); part < end; ++part) whole.back() += std::exchange(rewritten[part], {});
  return whole;
}

void CorpusWords::count_blocks(const std::vector<std::string_view>& documents) {
  if (!normalizer_) return count_text(documents);
  const std::vector<std::string> texts = normalized(documents);
  count_text({texts.begin(), texts.end()});
}

void CorpusWords::count_text(const std::vector<std::string_view>& documents) {
  std::vector<std::string_view> blocks;
  for (const std::string_view document : documents) cut(document, blocks, is_letter_before);
  std::atomic<size_t> next{0};
  pool_.parallel_for(static_cast<int64_t>(lanes_.size()), [&](int64_t lane) {
    WordCounts& counts = lanes_[static_cast<size_t>(lane)];
    for (size_t block; (block = next.fetch_add(1)) < blocks.size();) {
      splitter_(blocks[block], [&](std::string_view word) { counts.add(word, 1); });
      if (counts.memory_bytes() > lane_bytes_) runs_.add(std::exchange(counts, {}));
    }
  });
}

KeptWords CorpusWords::finish(uint64_t kept_bytes) {
  count_pending();
  if (runs_.empty()) {
    WordCounts total = std::move(lanes_[0]);
    for (size_t lane = 1; lane < lanes_.size(); ++lane) total.add_all(std::exchange(lanes_[lane], {}));
    if (total.memory_bytes() > kept_bytes)
      return most_frequent([&](const UseWord& use) { total.for_each(use); }, kept_bytes);
    KeptWords all;
    total.for_each([&](std::string_view, int64_t count) { all.occurrences += count; });
    all.words = all.all_words = static_cast<int64_t>(total.size());
    all.all_occurrences = all.occurrences;
    all.counts = std::move(total);
    return all;
  }
  for (WordCounts& lane : lanes_) runs_.add(std::exchange(lane, {}));
  return most_frequent([this](const UseWord& use) { runs_.for_each(use); }, kept_bytes);
}

}  // namespace athanor::text::trainers
