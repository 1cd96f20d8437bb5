#include "athanor/text/trainers/word_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <queue>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::text::trainers {
namespace {

constexpr size_t kRunBufferBytes = size_t{64} << 10;
constexpr size_t kMostRuns = 64;

// A word of a run: its size and its count, eight bytes each, and its bytes.
struct WordHead {
  uint64_t size_bytes;
  int64_t count;
};

class RunFile {
 public:
  explicit RunFile(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}
  void add(std::string_view word, int64_t count) {
    const WordHead head{word.size(), count};
    buffer_.append(reinterpret_cast<const char*>(&head), sizeof head).append(word);
    if (buffer_.size() >= kRunBufferBytes) flush();
  }
  void close() {
    flush();
    file_->close();
  }

 private:
  void flush() {
    file_->append(buffer_);
    buffer_.clear();
  }
  std::unique_ptr<WritableFile> file_;
  std::string buffer_;
};

class RunCursor {
 public:
  RunCursor(Env& env, const std::string& path) : file_(env.open(path)) { next(); }
  bool has_word() const { return has_word_; }
  std::string_view word() const { return word_; }
  int64_t count() const { return count_; }
  void next() {
    has_word_ = at_ + read_ < file_->size_bytes();
    if (!has_word_) return;
    WordHead head{};
    take(&head, sizeof head);
    word_.resize(head.size_bytes);
    take(word_.data(), word_.size());
    count_ = head.count;
  }

 private:
  void take(void* target, size_t size_bytes) {
    for (char* to = static_cast<char*>(target); size_bytes > 0;) {
      if (at_ == buffer_.size()) {
        read_ += at_;
        at_ = 0;
        buffer_.resize(std::min<uint64_t>(kRunBufferBytes, file_->size_bytes() - read_));
        check(!buffer_.empty(), "training: a file of counted words ends inside of a word");
        file_->read(read_, buffer_.data(), buffer_.size());
      }
      const size_t part = std::min(size_bytes, buffer_.size() - at_);
      std::memcpy(to, buffer_.data() + at_, part);
      to += part;
      at_ += part;
      size_bytes -= part;
    }
  }
  std::unique_ptr<ReadableFile> file_;
  std::string buffer_, word_;
  size_t at_ = 0;      // in the buffer
  uint64_t read_ = 0;  // bytes of the file before the buffer
  int64_t count_ = 0;
  bool has_word_ = false;
};

void merge(Env& env, const std::vector<std::string>& paths, const UseWord& use) {
  std::vector<std::unique_ptr<RunCursor>> runs;
  for (const std::string& path : paths) runs.push_back(std::make_unique<RunCursor>(env, path));
  const auto later = [](const RunCursor* a, const RunCursor* b) { return a->word() > b->word(); };
  std::priority_queue<RunCursor*, std::vector<RunCursor*>, decltype(later)> next(later);
  for (const auto& run : runs)
    if (run->has_word()) next.push(run.get());
  std::string word;
  while (!next.empty()) {
    word = next.top()->word();
    int64_t count = 0;
    while (!next.empty() && next.top()->word() == word) {
      RunCursor* run = next.top();
      next.pop();
      count += run->count();
      run->next();
      if (run->has_word()) next.push(run);
    }
    use(word, count);
  }
}

}  // namespace

WordRuns::WordRuns(WordMemory memory) : memory_(std::move(memory)) {
  if (memory_.memory_bytes > 0 && memory_.env->exists(memory_.folder))
    memory_.env->remove_all(memory_.folder);
}

WordRuns::~WordRuns() {
  try {
    if (made_ > 0) memory_.env->remove_all(memory_.folder);
  } catch (const IoError&) {  // the next training removes it
  }
}

std::string WordRuns::new_path() {
  if (made_ == 0) memory_.env->create_folders(memory_.folder);
  return join_path(memory_.folder, fmt::format("run-{:06}", made_++));
}

void WordRuns::add(const WordCounts& counts) {
  std::vector<std::pair<std::string_view, int64_t>> words;
  words.reserve(counts.size());
  counts.for_each([&](std::string_view word, int64_t count) { words.emplace_back(word, count); });
  std::ranges::sort(words);
  const std::lock_guard lock(mutex_);
  const auto write = [&](const auto& words_to) {
    std::string path = new_path();
    RunFile run(memory_.env->create(path));
    words_to([&](std::string_view word, int64_t count) { run.add(word, count); });
    run.close();
    return path;
  };
  paths_.push_back(write([&](const auto& put) {
    for (const auto& [word, count] : words) put(word, count);
  }));
  if (paths_.size() < kMostRuns) return;
  const std::string merged = write([&](const auto& put) {
    merge(*memory_.env, paths_, [&](auto word, auto count) { put(word, count); });
  });
  for (const std::string& path : paths_) memory_.env->remove_all(path);
  paths_ = {merged};
}

void WordRuns::for_each(const UseWord& use) const {
  merge(*memory_.env, paths_, use);
}

KeptWords most_frequent(const std::function<void(const UseWord&)>& for_each, uint64_t memory_bytes) {
  KeptWords kept;
  std::map<int64_t, uint64_t, std::greater<>> bytes_by_count;
  for_each([&](std::string_view word, int64_t count) {
    bytes_by_count[count] += WordCounts::bytes_of(word);
    ++kept.all_words;
    kept.all_occurrences += count;
  });
  uint64_t room = memory_bytes;
  int64_t least = 0;  // words of this count are kept as far as there is room, those above all
  for (const auto& [count, bytes] : bytes_by_count) {
    least = count;
    if (bytes > room) break;
    room -= bytes;
    least = count - 1;
  }
  for_each([&](std::string_view word, int64_t count) {
    if (count < least) return;
    if (count == least) {
      if (WordCounts::bytes_of(word) > room) return;
      room -= WordCounts::bytes_of(word);
    }
    kept.counts.add(word, count);
    ++kept.words;
    kept.occurrences += count;
  });
  return kept;
}

}  // namespace athanor::text::trainers
