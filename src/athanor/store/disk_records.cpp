#include "athanor/store/disk_records.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"

namespace athanor::store {
namespace {

constexpr size_t kSlots = 3;  // of stream(): one in use, one being read, one being written

uint64_t padded(uint64_t size_bytes) {
  return (size_bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

// u8, at a multiple of the file's alignment.
Tensor aligned(Arena& arena, uint64_t size_bytes, Category category) {
  const auto total = static_cast<int64_t>(size_bytes + kScratchAlignment);
  const Tensor memory = empty(arena, {total}, Dtype::u8, category);
  const auto address = reinterpret_cast<uintptr_t>(memory.raw());
  return view_as(memory, padded(address) - address, {static_cast<int64_t>(size_bytes)}, Dtype::u8);
}

}  // namespace

// The buffers of one pass over some items.
class DiskRecords::Staging {
 public:
  Staging(const DiskRecords& owner, std::span<const Item> items) : owner_(owner) {
    for (const Item& item : items) {
      uint64_t bytes = 0;
      for (const int record : item)
        bytes += padded(owner.records_.at(static_cast<size_t>(record)).size_bytes);
      slot_bytes_ = std::max(slot_bytes_, bytes);
    }
    memory_ = aligned(*owner.arena_, slot_bytes_ * std::min(kSlots, items.size()), Category::workspace);
  }
  // The records of an item, one after the other in the item's buffer.
  std::vector<Tensor> bytes(size_t index, const Item& item) const {
    std::vector<Tensor> all;
    uint64_t at = index % kSlots * slot_bytes_;
    for (const int record : item) {
      const uint64_t size = owner_.records_[static_cast<size_t>(record)].size_bytes;
      all.push_back(view_as(memory_, at, {static_cast<int64_t>(size)}, Dtype::u8));
      at += padded(size);
    }
    return all;
  }

 private:
  const DiskRecords& owner_;
  uint64_t slot_bytes_ = 0;
  Tensor memory_;
};

DiskRecords::DiskRecords(Env& env, std::string folder, std::string what)
    : env_(env), folder_(std::move(folder)), what_(std::move(what)) {}

DiskRecords::~DiskRecords() {
  drain();
}

int DiskRecords::add(const std::string& name, uint64_t size_bytes) {
  records_.push_back({.name = name, .size_bytes = size_bytes, .offset = file_bytes_});
  file_bytes_ += padded(size_bytes);
  if (file_ != nullptr) file_->resize(file_bytes_);
  return static_cast<int>(records_.size()) - 1;
}

void DiskRecords::allocate(Arena& arena, Category) {
  arena_ = &arena;
  if (arena.queue().device() == Device::null) return;
  env_.create_folders(folder_);
  file_ = env_.create_scratch(folder_);
  file_->resize(file_bytes_);
}

void DiskRecords::start(int index, bool writes, std::byte* data) {
  Record& record = records_[static_cast<size_t>(index)];
  if (record.size_bytes == 0) return;
  if (writes) {
    // The bytes after it, up to the end of the file's block, are transferred as well.
    std::memset(data + record.size_bytes, 0, padded(record.size_bytes) - record.size_bytes);
    record.checksum = hash64(data, record.size_bytes);
    record.written = true;
  } else if (!record.written) {
    std::memset(data, 0, record.size_bytes);
    return;
  }
  while (on_the_way_.size() >= ScratchFile::kMaxInFlight) take_one();
  on_the_way_.push_back({.record = index, .writes = writes, .data = data, .done_bytes = 0});
  submit(on_the_way_.back());
}

void DiskRecords::submit(const Transfer& transfer) {
  const Record& record = records_[static_cast<size_t>(transfer.record)];
  // One system call transfers less than 2 GiB.
  constexpr uint64_t kMostBytes = uint64_t{1} << 30;
  file_->submit({.id = static_cast<uint64_t>(transfer.record),
                 .writes = transfer.writes,
                 .offset = record.offset + transfer.done_bytes,
                 .data = transfer.data + transfer.done_bytes,
                 .size_bytes = std::min(kMostBytes, padded(record.size_bytes) - transfer.done_bytes)});
}

// Waits for one system call. Finishes its transfer, or starts the rest of it.
void DiskRecords::take_one() {
  const ScratchDone done = file_->wait_any();
  const auto found = std::find_if(on_the_way_.begin(), on_the_way_.end(), [&](const Transfer& transfer) {
    return static_cast<uint64_t>(transfer.record) == done.id;
  });
  check(found != on_the_way_.end(), "records: a transfer that nobody asked for is done");
  const Record& record = records_[done.id];
  const auto refuse = [&](const char* verb, int code, const std::string& reason) {
    on_the_way_.erase(found);
    throw IoError(fmt::format("{}: cannot {} {} in '{}': {}", what_, verb, record.name, folder_, reason),
                  code,
                  code == ENOSPC ? "free some space on that disk; the last checkpoint is untouched"
                                 : "the last checkpoint is untouched");
  };
  const char* verb = found->writes ? "write" : "read";
  if (done.result == -EINTR || done.result == -EAGAIN) return submit(*found);
  if (done.result < 0)
    refuse(verb, static_cast<int>(-done.result), std::strerror(static_cast<int>(-done.result)));
  // A transfer continues at a block boundary; a partial block is read or written again.
  const uint64_t moved = static_cast<uint64_t>(done.result) / kScratchAlignment * kScratchAlignment;
  if (moved == 0) refuse(verb, EIO, fmt::format("{} bytes moved, expected more", done.result));
  found->done_bytes += moved;
  if (found->done_bytes < padded(record.size_bytes)) return submit(*found);
  const Transfer finished = *found;
  on_the_way_.erase(found);
  if (!finished.writes) check_read(finished.record, finished.data);
}

void DiskRecords::check_read(int index, const std::byte* data) const {
  const Record& record = records_[static_cast<size_t>(index)];
  const uint64_t checksum = hash64(data, record.size_bytes);
  if (checksum == record.checksum) return;
  throw IoError(
      fmt::format("{}: {} came back changed from the disk of '{}': got checksum {:016x}, expected {:016x}",
                  what_, record.name, folder_, checksum, record.checksum),
      EIO, "the last checkpoint is untouched; check that disk");
}

void DiskRecords::wait_for(std::span<const int> item) {
  const auto is_on_its_way = [&](const Transfer& transfer) {
    return std::find(item.begin(), item.end(), transfer.record) != item.end();
  };
  while (std::any_of(on_the_way_.begin(), on_the_way_.end(), is_on_its_way)) take_one();
}

void DiskRecords::drain() noexcept {
  while (!on_the_way_.empty()) {
    try {
      file_->wait_any();
    } catch (const Failure&) {  // no more transfers are pending
      on_the_way_.clear();
      return;
    }
    on_the_way_.pop_back();
  }
}

Tensor DiskRecords::make_buffer(uint64_t size_bytes, Category category) {
  check(arena_ != nullptr, "records: {} has no room on the disk yet", what_);
  return view_as(aligned(*arena_, padded(size_bytes), category), 0, {static_cast<int64_t>(size_bytes)},
                 Dtype::u8);
}

void DiskRecords::start_read(int record, const Tensor& bytes) {
  check(bytes.size_bytes() == size_of(record), "records: got {} bytes for {}, expected {}",
        bytes.size_bytes(), records_[static_cast<size_t>(record)].name, size_of(record));
  if (file_ != nullptr) start(record, false, static_cast<std::byte*>(bytes.raw()));
}

void DiskRecords::start_write(int record, const Tensor& bytes) {
  check(bytes.size_bytes() == size_of(record), "records: got {} bytes for {}, expected {}",
        bytes.size_bytes(), records_[static_cast<size_t>(record)].name, size_of(record));
  if (file_ != nullptr) start(record, true, static_cast<std::byte*>(bytes.raw()));
}

void DiskRecords::finish(int record) {
  const int item[] = {record};
  wait_for(item);
}

void DiskRecords::stream(std::span<const Item> items, Access access, const Visit& visit) {
  check(arena_ != nullptr, "records: {} has no room on the disk yet", what_);
  if (items.empty()) return;
  const Staging staging(*this, items);
  const bool reads = access != Access::write, writes = access != Access::read;
  const auto move = [&](size_t index, bool writing) {
    if (file_ == nullptr) return;
    const std::vector<Tensor> bytes = staging.bytes(index, items[index]);
    for (size_t i = 0; i < bytes.size(); ++i)
      writing ? start_write(items[index][i], bytes[i]) : start_read(items[index][i], bytes[i]);
  };
  try {
    if (reads) move(0, false);
    for (size_t i = 0; i < items.size(); ++i) {
      // The next item reuses the buffer of the item before the previous one, after waiting for its write.
      if (i + 1 >= kSlots && writes) wait_for(items[i + 1 - kSlots]);
      if (reads && i + 1 < items.size()) move(i + 1, false);
      if (reads) wait_for(items[i]);
      std::vector<Tensor> bytes = staging.bytes(i, items[i]);
      visit(i, bytes);
      if (writes) move(i, true);
    }
    while (!on_the_way_.empty()) take_one();
  } catch (...) {
    drain();
    throw;
  }
}

}  // namespace athanor::store
