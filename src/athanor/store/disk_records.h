// Records (records.h) in a scratch file: read ahead of use, written behind it, each with a checksum in memory.
//
//   DiskRecords records(env, "runs/first", "the optimizer's state");
//
// stream() keeps three items in buffers of the arena (category workspace): the one in use, the next, which is being
// read, and the last, which is being written; so the disk works while the caller computes. The room on the disk is
// taken by allocate(). Checksums (XXH3) are made from memory before a write and held against every read, so bytes that
// the disk changed, or a write that it forgot, are an IoError naming the record. Results do not depend on timing.
// A record that is added later takes its room at once. Short transfers are continued; a transfer that fails is an
// IoError naming record and folder, and stream() returns only when nothing touches its buffers any more.
//
// Whoever knows better when to read and write than stream() does it by hand:
//
//   Tensor bytes = records.make_buffer(size_bytes, Category::workspace);
//   records.start_read(record, bytes);
//   ...
//   records.finish(record);       // now they are there; bytes must live until then
#pragma once

#include <memory>

#include "athanor/base/file.h"
#include "athanor/store/records.h"

namespace athanor {

class DiskRecords final : public Records {
 public:
  // `what` is for messages. allocate() makes the folder where there is none, and the file in it.
  DiskRecords(Env& env, std::string folder, std::string what);
  ~DiskRecords() override;

  int add(const std::string& name, uint64_t size_bytes) override;
  void allocate(Arena& arena, Category category) override;
  void stream(std::span<const Item> items, Access access, const Visit& visit) override;
  Tensor resident(int) const override { return {}; }

  Tensor make_buffer(uint64_t size_bytes,
                     Category category);  // u8 [size_bytes], with room for whole blocks of the file
  void start_read(int record, const Tensor& bytes);
  void start_write(int record, const Tensor& bytes);
  void finish(int record);  // nothing where none is on its way
  void drain() noexcept;    // ends what is on its way, whatever becomes of it: buffers are about to go

  uint64_t size_of(int record) const { return records_.at(static_cast<size_t>(record)).size_bytes; }
  uint64_t file_bytes() const { return file_bytes_; }
  const ScratchFile* file() const { return file_.get(); }  // null on the null device

 private:
  struct Record {
    std::string name;
    uint64_t size_bytes, offset;  // of what is used, and where it begins
    uint64_t checksum = 0;
    bool written = false;  // else it is zeros
  };
  // What is still to be moved of a record that is on its way.
  struct Transfer {
    int record;
    bool writes;
    std::byte* data;
    uint64_t done_bytes;
  };
  class Staging;

  void start(int record, bool writes, std::byte* data);
  void submit(const Transfer& transfer);
  void take_one();
  void wait_for(std::span<const int> item);
  void check_read(int record, const std::byte* data) const;

  Env& env_;
  std::string folder_, what_;
  std::vector<Record> records_;
  uint64_t file_bytes_ = 0;
  Arena* arena_ = nullptr;
  std::unique_ptr<ScratchFile> file_;
  std::vector<Transfer> on_the_way_;
};

}  // namespace athanor
