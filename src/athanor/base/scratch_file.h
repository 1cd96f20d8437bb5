// A temporary file without a name for data that does not fit into memory (offload to disk): read and written in any
// order, several transfers at a time. It is unlinked before use, so it is gone with the process, however the process
// ends.
//
//   const auto file = env.create_scratch("runs/first");               // a folder on a disk, not in memory
//   file->resize(1 << 30);                                            // IoError now if the disk has no room
//   file->submit({.id = 7, .writes = true, .offset = 8192, .data = buffer, .size_bytes = 4096});
//   const ScratchDone done = file->wait_any();                        // {7, 4096}
//
// Transfers use io_uring. If the system has none or forbids it, a thread of the file calls pread and pwrite. They
// bypass the page cache if the file system can, or else data put on disk would fill memory after all. Offsets, sizes
// and addresses are multiples of kScratchAlignment. A result is that of the system call: the number of bytes, which may
// be fewer than asked for, or minus an errno; store/disk_records.h turns results into complete transfers and
// exceptions. A buffer belongs to the file until its transfer is done; the destructor waits for all transfers.
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::base {

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
  virtual void resize(uint64_t size_bytes) = 0;  // allocates the room on the disk; IoError if there is none
  virtual void submit(const ScratchTransfer& transfer) = 0;  // at most kMaxInFlight at a time
  virtual ScratchDone wait_any() = 0;                        // Error if nothing was submitted
  virtual const std::string& folder() const = 0;
  virtual const char* engine() const = 0;  // "io_uring", "pread"
};

enum class ScratchEngine { best, pread };

// Error if `folder` is not a folder; IoError from the system.
std::unique_ptr<ScratchFile> open_scratch_file(const std::string& folder,
                                               ScratchEngine engine = ScratchEngine::best);

}  // namespace athanor::base
