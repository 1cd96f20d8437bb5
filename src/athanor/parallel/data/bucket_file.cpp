#include "athanor/parallel/data/bucket_file.h"

#include <algorithm>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::parallel::data {

BucketFile::BucketFile(const std::string& what, std::vector<BucketRow> rows, Dtype dtype, Arena& arena,
                       Category category, const DiskPlace& place)
    : rows_(std::move(rows)), dtype_(dtype), category_(category), records_(*place.env, place.folder, what) {
  records_.allocate(arena, category);
  reserve(1);
}

BucketFile::~BucketFile() {
  records_.drain();  // before the rows go
}

void BucketFile::reserve(size_t sets) {
  for (; num_sets_ < sets; ++num_sets_)
    for (const BucketRow& row : rows_)
      records_.add(num_sets_ == 0 ? row.names : fmt::format("partial sum {} of {}", num_sets_, row.names),
                   static_cast<uint64_t>(row.count) * size_of(dtype_));
}

int BucketFile::record(size_t set, size_t bucket) const {
  check(set < num_sets_ && bucket < rows_.size(),
        "bucket file: got bucket {} of partial sum {}, expected {} of {}", bucket, set, rows_.size(),
        num_sets_);
  return static_cast<int>(set * rows_.size() + bucket);
}

Tensor BucketFile::bytes_of(const Tensor& row) const {
  return view_as(row, 0, {static_cast<int64_t>(row.size_bytes())}, Dtype::u8);
}

Tensor BucketFile::fresh(size_t bucket) {
  const int64_t count = rows_.at(bucket).count;
  return view_as(records_.make_buffer(static_cast<uint64_t>(count) * size_of(dtype_), category_), 0, {count},
                 dtype_);
}

void BucketFile::read_ahead(size_t set, size_t bucket) {
  const int wanted = record(set, bucket);
  const auto is_it = [&](const Row& row) { return row.record == wanted; };
  if (is_it(looked_) || is_it(written_) || std::any_of(ahead_.begin(), ahead_.end(), is_it)) return;
  ahead_.push_back({wanted, fresh(bucket)});
  records_.start_read(wanted, bytes_of(ahead_.back().elements));
}

Tensor BucketFile::read(size_t set, size_t bucket) {
  const int wanted = record(set, bucket);
  if (looked_.record == wanted) return looked_.elements;
  if (written_.record == wanted) {
    Tensor row = written_.elements;  // still here
    finish_write();
    return row;
  }
  read_ahead(set, bucket);
  const auto found =
      std::find_if(ahead_.begin(), ahead_.end(), [&](const Row& row) { return row.record == wanted; });
  records_.finish(wanted);
  Tensor row = found->elements;
  ahead_.erase(found);
  return row;
}

void BucketFile::write(size_t set, size_t bucket, Tensor row) {
  start_write({record(set, bucket), std::move(row)});
}

void BucketFile::start_write(Row row) {
  finish_write();
  check(std::none_of(ahead_.begin(), ahead_.end(),
                     [&](const Row& ahead) { return ahead.record == row.record; }),
        "bucket file: got row {} to write while it is being read", row.record);
  written_ = std::move(row);
  records_.start_write(written_.record, bytes_of(written_.elements));
}

void BucketFile::finish_write() {
  if (written_.record < 0) return;
  records_.finish(written_.record);
  written_ = {};
}

Tensor BucketFile::look(size_t set, size_t bucket) {
  if (looked_.record == record(set, bucket)) return looked_.elements;
  put_back();
  looked_ = {record(set, bucket), read(set, bucket)};
  return looked_.elements;
}

void BucketFile::put_back() {
  Row row = std::exchange(looked_, {});
  if (!std::exchange(looked_changed_, false)) return;
  start_write(std::move(row));
}

void BucketFile::settle() {
  put_back();
  finish_write();
  for (const Row& row : ahead_) records_.finish(row.record);
  ahead_.clear();
}

}  // namespace athanor::parallel::data
