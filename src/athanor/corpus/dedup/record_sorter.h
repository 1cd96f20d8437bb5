// Sorts any number of records in bounded memory, by runs on a disk.
//
//   RecordSorter sorter(env, "scratch/dedup", 256 << 20);
//   sorter.add({.key = hash_key("a line"), .document = 17, .begin = 0, .end = 6});
//   sorter.merge([](const KeyRecord& record) { ... });  // in order
//
// Records gather in one buffer; when it is full they are sorted and become a file. What comes out depends on the
// records alone, not on their order, the memory or the passes. A sorter that never filled its buffer writes nothing.
// Memory: the buffer and, while a run is written or read, buffers inside the same limit; beside it some 300 bytes for
// each open run.
// Disk: 32 bytes a record, twice that while runs are merged in several passes.
// Several workers: each has a sorter and writes what it merges to a run of its own (record_runs.h); merge_runs()
// makes one stream of these. Errors: IoError of the disk; Error for a limit below kMinSortBytes.
// Thread rule: one thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/corpus/dedup/record.h"
#include "athanor/corpus/dedup/record_runs.h"

namespace athanor::corpus::dedup {

class RecordSorter {
 public:
  // The folder belongs to the sorter, which makes it when it first needs it and removes its files at its end.
  RecordSorter(base::Env& env, std::string folder, uint64_t memory_bytes);
  ~RecordSorter();
  RecordSorter(const RecordSorter&) = delete;
  RecordSorter& operator=(const RecordSorter&) = delete;

  void add(const KeyRecord& record);
  // Once, behind the last add().
  void merge(const std::function<void(const KeyRecord&)>& use);

  uint64_t records() const { return records_; }
  size_t runs() const { return paths_.size(); }  // on the disk

 private:
  void write_run();

  base::Env& env_;
  std::string folder_;
  uint64_t memory_bytes_, records_ = 0;
  std::vector<KeyRecord> buffer_;
  size_t most_records_;
  std::vector<std::string> paths_;
};

}  // namespace athanor::corpus::dedup
