// Records (records.h) in a scratch file: offload to disk, with reads ahead of use, writes behind it, and a checksum of
// each record in memory.
//
//   DiskRecords records(env, "runs/first", "the optimizer's state");
//
// stream() keeps three items in buffers of the arena (category workspace): the one in use, the next one (being read)
// and the last one (being written), so that the disk works while the caller computes. allocate() reserves the space on
// disk; a record added later reserves its own at once. Checksums (XXH3) are computed from memory before a write and
// compared at every read, so corrupted bytes or a lost write are an IoError naming the record. Results do not depend on
// timing. Short transfers are continued. Errors: a failed transfer is an IoError naming record and folder; stream()
// returns only when no transfer uses its buffers any more. Thread rule: as Records.
//
// A caller that knows better when to read and write does it by hand:
//
//   Tensor bytes = records.make_buffer(size_bytes, Category::workspace);
//   records.start_read(record, bytes);
//   ...
//   records.finish(record);       // the bytes are complete; `bytes` must live until then
#pragma once

#include <memory>

#include "athanor/base/file.h"
#include "athanor/store/records.h"

namespace athanor::store {

class DiskRecords final : public Records {
 public:
  // `what` names the records in messages. allocate() makes the folder, if necessary, and the file.
  DiskRecords(Env& env, std::string folder, std::string what);
  ~DiskRecords() override;

  int add(const std::string& name, uint64_t size_bytes) override;
  void allocate(Arena& arena, Category category) override;
  void stream(std::span<const Item> items, Access access, const Visit& visit) override;
  Tensor resident(int) const override { return {}; }

  Tensor make_buffer(uint64_t size_bytes,
                     Category category);  // u8 [size_bytes], with room up to whole blocks of the file
  void start_read(int record, const Tensor& bytes);
  void start_write(int record, const Tensor& bytes);
  void finish(int record);  // waits for the record's transfer, if one is pending
  void drain() noexcept;    // waits for all pending transfers, ignoring failures: before buffers are freed

  uint64_t size_of(int record) const { return records_.at(static_cast<size_t>(record)).size_bytes; }
  uint64_t file_bytes() const { return file_bytes_; }
  const ScratchFile* file() const { return file_.get(); }  // null on the null device

 private:
  struct Record {
    std::string name;
    uint64_t size_bytes, offset;  // in the file
    uint64_t checksum = 0;
    bool written = false;  // false: the record is all zeros
  };
  // A pending transfer of a record; done_bytes of it are complete.
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

}  // namespace athanor::store
