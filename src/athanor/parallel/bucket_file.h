// Buckets on disk (offload): for each of some buckets a row of elements, in as many sets as are asked for. Gradients
// lie in them between grains and until the update, ZeRO-3 parameters between their uses.
//
//   BucketFile file("gradients", {{"'head'", 4096}, {"'embed'", 512}}, Dtype::f32, arena, Category::gradients, place);
//   file.reserve(2);                           // sets; zeros where nothing was written
//   file.read_ahead(0, bucket);                // double buffering: the disk works while the caller computes
//   Tensor row = file.read(0, bucket);         // [4096]; file.fresh(bucket) where what was there does not count
//   file.write(0, bucket, row);                // behind: one row at a time is on its way
//
// look() is for who asks for parts of rows in about their order: the row stays until another is looked at, and is
// written then if changed() was said. Memory: what the caller holds, one row being written, those read ahead. Rows are
// checksummed (store/disk_records.h). Errors: IoError with the names of the row. Thread rule: one thread.
#pragma once

#include <string>
#include <vector>

#include "athanor/store/disk_records.h"

namespace athanor {

// Where files lie; without an env: nowhere, all is in memory.
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

  void reserve(size_t sets);  // takes the room on the disk; one is there from the beginning
  Tensor fresh(size_t bucket);
  void read_ahead(size_t set, size_t bucket);  // nothing where it is there, or on its way
  Tensor read(size_t set, size_t bucket);
  void write(size_t set, size_t bucket, Tensor row);

  Tensor look(size_t set, size_t bucket);
  void changed() { looked_changed_ = true; }  // of what was looked at last
  void put_back();                            // it goes now
  void settle();                              // nothing stays, nothing is on its way

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
  Row written_;  // until it is there
  Row looked_;
  bool looked_changed_ = false;
};

}  // namespace athanor
