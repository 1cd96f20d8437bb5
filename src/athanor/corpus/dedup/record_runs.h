// Sorted files of records, and merging them.
//
//   RunWriter writer(env, "scratch/run-0", 1 << 16);
//   for (const KeyRecord& record : sorted) writer.add(record);
//   writer.close();
//   merge_runs(env, {"scratch/run-0", "scratch/run-1"}, "scratch/merge", 1 << 20, [](const KeyRecord& record) { ... });
//
// A run is the records' bytes and nothing else (record.h). It is for the machine and the build that wrote it; a file
// that is cut off inside of a record, or not in order, is an Error that names it. Files fail as IoError.
// Thread rule: an object belongs to one thread; several threads and processes may merge into folders of their own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/corpus/dedup/record.h"

namespace athanor::corpus::dedup {

// What merging takes at least: buffers of two runs and of the file that they become.
constexpr uint64_t kMinSortBytes = 4096;

class RunWriter {
 public:
  RunWriter(base::Env& env, const std::string& path, uint64_t buffer_bytes);
  void add(const KeyRecord& record);
  void close();  // without it the file is not complete
  uint64_t records() const { return records_; }

 private:
  void flush();

  std::unique_ptr<base::WritableFile> file_;
  std::vector<KeyRecord> buffer_;
  uint64_t records_ = 0;
};

// Reads a run from its beginning.
class RunReader {
 public:
  RunReader(base::Env& env, const std::string& path, uint64_t buffer_bytes);
  bool next(KeyRecord& record);  // false at the end

 private:
  std::string path_;
  std::unique_ptr<base::ReadableFile> file_;
  std::vector<KeyRecord> buffer_;
  size_t at_ = 0, filled_ = 0;    // of the buffer
  uint64_t read_ = 0, size_ = 0;  // records of the file
  KeyRecord last_ = {};
};

// Hands on the records of all runs in order, equal ones as often as they occur. Buffers take at most memory_bytes, at
// least kMinSortBytes; where that is too little to read all runs at a time, they are merged in several passes by
// files in `folder`, which is made if need be. The runs stay; the files of passes are removed, also where this
// throws.
void merge_runs(base::Env& env, const std::vector<std::string>& paths, const std::string& folder,
                uint64_t memory_bytes, const std::function<void(const KeyRecord&)>& use);

}  // namespace athanor::corpus::dedup
