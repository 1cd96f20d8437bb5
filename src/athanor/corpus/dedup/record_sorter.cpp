#include "athanor/corpus/dedup/record_sorter.h"

#include <algorithm>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::corpus::dedup {
namespace {

// Of the limit, for writing a run while the records are in memory.
uint64_t run_writer_bytes(uint64_t memory_bytes) {
  return std::min<uint64_t>(memory_bytes / 8, uint64_t{1} << 20);
}

}  // namespace

RecordSorter::RecordSorter(base::Env& env, std::string folder, uint64_t memory_bytes)
    : env_(env), folder_(std::move(folder)), memory_bytes_(memory_bytes) {
  base::check(memory_bytes >= kMinSortBytes, "sort: memory: got {} bytes, expected at least {}", memory_bytes,
              kMinSortBytes);
  most_records_ = static_cast<size_t>((memory_bytes - run_writer_bytes(memory_bytes)) / sizeof(KeyRecord));
}

RecordSorter::~RecordSorter() {
  for (const std::string& path : paths_) {
    try {
      env_.remove_all(path);
    } catch (const base::IoError&) {  // scratch space: the folder's owner removes it, too
    }
  }
}

void RecordSorter::add(const KeyRecord& record) {
  if (buffer_.size() == most_records_) write_run();
  if (buffer_.capacity() == 0) buffer_.reserve(most_records_);  // growing would hold an old and a new buffer
  buffer_.push_back(record);
  ++records_;
}

void RecordSorter::write_run() {
  if (paths_.empty()) env_.create_folders(folder_);
  std::sort(buffer_.begin(), buffer_.end());
  paths_.push_back(base::join_path(folder_, "run-" + std::to_string(paths_.size())));
  RunWriter writer(env_, paths_.back(), run_writer_bytes(memory_bytes_));
  for (const KeyRecord& record : buffer_) writer.add(record);
  writer.close();
  buffer_.clear();
}

void RecordSorter::merge(const std::function<void(const KeyRecord&)>& use) {
  if (paths_.empty()) {
    std::sort(buffer_.begin(), buffer_.end());
    for (const KeyRecord& record : buffer_) use(record);
    return;
  }
  if (!buffer_.empty()) write_run();
  std::vector<KeyRecord>().swap(buffer_);
  merge_runs(env_, paths_, base::join_path(folder_, "passes"), memory_bytes_, use);
}

}  // namespace athanor::corpus::dedup
