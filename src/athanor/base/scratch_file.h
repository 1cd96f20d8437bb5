// A file without a name for what does not fit into memory: read and written in any order, several transfers at a
// time, and gone with the process however that ends (it is unlinked before it is used).
//
//   const auto file = env.create_scratch("runs/first");               // a folder on a disk, not in memory
//   file->resize(1 << 30);                                            // IoError now where the disk has no room
//   file->submit({.id = 7, .writes = true, .offset = 8192, .data = buffer, .size_bytes = 4096});
//   const ScratchDone done = file->wait_any();                        // {7, 4096}
//
// Transfers go through io_uring, or, where the system has or allows none, through pread and pwrite on a thread of the
// file's own; past the page cache where the file system can, so that what was put on disk does not fill memory after
// all. Offsets, sizes and addresses are multiples of kScratchAlignment. A result is that of the system call: bytes,
// which may be fewer than asked for, or minus an errno; store/disk_records.h makes whole transfers and errors of it.
// The buffers belong to the file until their transfer is done; the destructor waits for those that are not.
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace athanor {

constexpr uint64_t kScratchAlignment = 4096;

struct ScratchTransfer {
  uint64_t id = 0;  // the caller's
  bool writes = false;
  uint64_t offset = 0;
  std::byte* data = nullptr;
  size_t size_bytes = 0;
};

struct ScratchDone {
  uint64_t id = 0;
  int64_t result = 0;
};

class ScratchFile {
 public:
  static constexpr int kMaxInFlight = 64;

  virtual ~ScratchFile() = default;
  virtual void resize(uint64_t size_bytes) = 0;  // takes the room on the disk; IoError where there is none
  virtual void submit(const ScratchTransfer& transfer) = 0;  // at most kMaxInFlight at a time
  virtual ScratchDone wait_any() = 0;                        // Error where nothing was submitted
  virtual const std::string& folder() const = 0;
  virtual const char* engine() const = 0;  // "io_uring", "pread"
};

enum class ScratchEngine { best, pread };

// Error where the folder is none; IoError from the system.
std::unique_ptr<ScratchFile> open_scratch_file(const std::string& folder,
                                               ScratchEngine engine = ScratchEngine::best);

}  // namespace athanor
