// Gradient or parameter buckets offloaded to disk. The file holds `sets` copies of every bucket's row of elements:
// gradients between micro-batches and until the update, ZeRO-3 parameters between their uses.
//
//   BucketFile file("gradients", {{"'head'", 4096}, {"'embed'", 512}}, Dtype::f32, arena, Category::gradients, place);
//   file.reserve(2);                           // two sets; rows that were never written are zero
//   file.read_ahead(0, bucket);                // prefetch: the disk works while the caller computes
//   Tensor row = file.read(0, bucket);         // [4096]; file.fresh(bucket): memory without reading, to overwrite
//   file.write(0, bucket, row);                // asynchronous; at most one row is being written
//
// look() serves callers that read parts of rows in about their order: the row stays in memory until look() is called
// for another row. changed() has it written back then. Memory: what the caller holds, one row being written, rows read
// ahead. Rows are checksummed (store/disk_records.h). Errors: IoError with the names of the row. Thread rule: one
// thread.
#pragma once

#include <string>
#include <vector>

#include "athanor/store/disk_records.h"

namespace athanor::parallel::data {

// The folder of the files. Without an env nothing is offloaded: all is in memory.
struct DiskPlace {
  Env* env = nullptr;
  std::string folder = {};
  bool is_used() const { return env != nullptr; }
};

struct BucketRow {
  std::string names;  // of the tensors in it, for messages
  int64_t count = 0;  // elements
};

class BucketFile {
 public:
  BucketFile(const std::string& what, std::vector<BucketRow> rows, Dtype dtype, Arena& arena,
             Category category, const DiskPlace& place);
  ~BucketFile();

  void reserve(size_t sets);  // allocates disk space for so many sets; the file begins with one
  Tensor fresh(size_t bucket);
  void read_ahead(size_t set, size_t bucket);  // does nothing if the row is in memory or being read
  Tensor read(size_t set, size_t bucket);
  void write(size_t set, size_t bucket, Tensor row);

  Tensor look(size_t set, size_t bucket);
  void changed() { looked_changed_ = true; }  // the caller has overwritten the row of the last look()
  void put_back();                            // releases that row now, after writing it back if it changed
  void settle();                              // waits for reads and writes, and releases all rows

 private:
  struct Row {
    int record = -1;
    Tensor elements;
  };
  int record(size_t set, size_t bucket) const;
  Tensor bytes_of(const Tensor& row) const;
  void start_write(Row row);
  void finish_write();

  std::vector<BucketRow> rows_;
  Dtype dtype_;
  Category category_;
  DiskRecords records_;
  size_t num_sets_ = 0;
  std::vector<Row> ahead_;
  Row written_;  // the row being written
  Row looked_;
  bool looked_changed_ = false;
};

}  // namespace athanor::parallel::data
