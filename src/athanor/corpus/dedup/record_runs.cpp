#include "athanor/corpus/dedup/record_runs.h"

#include <algorithm>
#include <deque>
#include <span>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::corpus::dedup {
namespace {

constexpr uint64_t kRecordBytes = sizeof(KeyRecord);
constexpr uint64_t kRunBufferBytes = uint64_t{1} << 20;  // more wins nothing
constexpr uint64_t kLeastRunBufferBytes = 1024;
constexpr size_t kMostOpenRuns = 256;  // systems allow 1024 open files

size_t records_in(uint64_t bytes) {
  return static_cast<size_t>(std::max<uint64_t>(1, bytes / kRecordBytes));
}

// How many runs are read at a time, with buffers of how many bytes. One buffer more writes.
struct MergeShape {
  size_t runs;
  uint64_t buffer_bytes;
};

MergeShape shape_of(size_t runs, uint64_t memory_bytes) {
  const uint64_t most = std::max<uint64_t>(2, memory_bytes / kLeastRunBufferBytes - 1);
  const size_t at_a_time = std::min({runs, static_cast<size_t>(most), kMostOpenRuns});
  return {at_a_time, std::min(kRunBufferBytes, memory_bytes / (at_a_time + 1))};
}

// The runs whose next record is least come first.
class RunHeap {
 public:
  RunHeap(base::Env& env, std::span<const std::string> paths, uint64_t buffer_bytes) {
    for (const std::string& path : paths) {
      readers_.emplace_back(env, path, buffer_bytes);
      KeyRecord first;
      if (readers_.back().next(first)) heads_.push_back({first, readers_.size() - 1});
    }
    std::make_heap(heads_.begin(), heads_.end(), later);
  }

  bool next(KeyRecord& record) {
    if (heads_.empty()) return false;
    std::pop_heap(heads_.begin(), heads_.end(), later);
    Head& head = heads_.back();
    record = head.record;
    if (readers_[head.reader].next(head.record))
      std::push_heap(heads_.begin(), heads_.end(), later);
    else
      heads_.pop_back();
    return true;
  }

 private:
  struct Head {
    KeyRecord record;
    size_t reader;
  };
  static bool later(const Head& left, const Head& right) { return right.record < left.record; }

  std::deque<RunReader> readers_;
  std::vector<Head> heads_;
};

// Files of passes, which do not outlive the merge.
class PassFiles {
 public:
  PassFiles(base::Env& env, std::string folder) : env_(env), folder_(std::move(folder)) {}
  ~PassFiles() {
    for (const std::string& path : paths_) remove(path);
  }
  PassFiles(const PassFiles&) = delete;
  PassFiles& operator=(const PassFiles&) = delete;

  std::string add() {
    if (paths_.empty()) env_.create_folders(folder_);
    paths_.push_back(base::join_path(folder_, "pass-" + std::to_string(paths_.size())));
    return paths_.back();
  }
  // Room on the disk for the next file; those that are no pass files stay.
  void remove_if_own(const std::string& path) {
    if (std::find(paths_.begin(), paths_.end(), path) != paths_.end()) remove(path);
  }

 private:
  void remove(const std::string& path) {
    try {
      if (env_.exists(path)) env_.remove_all(path);
    } catch (const base::IoError&) {  // the folder is scratch space: its owner removes it, too
    }
  }

  base::Env& env_;
  std::string folder_;
  std::vector<std::string> paths_;
};

}  // namespace

RunWriter::RunWriter(base::Env& env, const std::string& path, uint64_t buffer_bytes)
    : file_(env.create(path)) {
  buffer_.reserve(records_in(buffer_bytes / 2));  // the file has a buffer of its own
}

void RunWriter::add(const KeyRecord& record) {
  buffer_.push_back(record);
  ++records_;
  if (buffer_.size() == buffer_.capacity()) flush();
}

void RunWriter::flush() {
  file_->append(buffer_.data(), buffer_.size() * kRecordBytes);
  file_->flush();  // or the file's buffer would grow beyond ours
  buffer_.clear();
}

void RunWriter::close() {
  flush();
  file_->close();
}

RunReader::RunReader(base::Env& env, const std::string& path, uint64_t buffer_bytes)
    : path_(path), file_(env.open(path)), size_(file_->size_bytes() / kRecordBytes) {
  base::check(file_->size_bytes() % kRecordBytes == 0,
              "'{}': got {} bytes, expected sorted records of {} bytes each", path_, file_->size_bytes(),
              kRecordBytes);
  buffer_.resize(std::min<uint64_t>(records_in(buffer_bytes), size_));
}

bool RunReader::next(KeyRecord& record) {
  if (at_ == filled_) {
    filled_ = static_cast<size_t>(std::min<uint64_t>(buffer_.size(), size_ - read_));
    at_ = 0;
    if (filled_ == 0) return false;
    file_->read(read_ * kRecordBytes, buffer_.data(), filled_ * kRecordBytes);
    read_ += filled_;
  }
  record = buffer_[at_++];
  base::check(!(record < last_),
              "'{}': record {} comes before the one in front of it, expected sorted records", path_,
              read_ - filled_ + at_ - 1);
  last_ = record;
  return true;
}

void merge_runs(base::Env& env, const std::vector<std::string>& paths, const std::string& folder,
                uint64_t memory_bytes, const std::function<void(const KeyRecord&)>& use) {
  base::check(memory_bytes >= kMinSortBytes, "sort: memory: got {} bytes, expected at least {}", memory_bytes,
              kMinSortBytes);
  PassFiles files(env, folder);
  std::vector<std::string> open = paths;
  KeyRecord record;
  while (true) {
    const MergeShape shape = shape_of(open.size(), memory_bytes);
    if (shape.runs == open.size()) {
      RunHeap heap(env, open, shape.buffer_bytes);
      while (heap.next(record)) use(record);
      return;
    }
    // The oldest first: what was merged waits until all others were, so that every record is copied about as often.
    const std::vector<std::string> some(open.begin(), open.begin() + static_cast<ptrdiff_t>(shape.runs));
    const std::string path = files.add();
    {
      RunHeap heap(env, some, shape.buffer_bytes);
      RunWriter writer(env, path, shape.buffer_bytes);
      while (heap.next(record)) writer.add(record);
      writer.close();
    }
    for (const std::string& merged : some) files.remove_if_own(merged);
    open.erase(open.begin(), open.begin() + static_cast<ptrdiff_t>(shape.runs));
    open.push_back(path);
  }
}

}  // namespace athanor::corpus::dedup
