// A small file system in memory (tmpfs), which only this process and its children see: a disk to fill.
//
//   if (const std::string why = SmallDisk::refused(); !why.empty()) return why;
//   SmallDisk disk("chaos_x/disk", 64 << 20);
//   disk.fill(/*leave_bytes=*/0);
//   disk.free();
//
// It needs a mount namespace, for which this process needs to be root or to have a single thread and user namespaces. The
// destructor takes it away with all that lies on it. Errors: IoError. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::chaos {

class SmallDisk {
 public:
  static std::string refused();  // why there can be none; "": there can

  SmallDisk(const std::string& folder, uint64_t size_bytes);  // makes the folder
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  void fill(uint64_t leave_bytes);  // again: what has become free since
  void free();

 private:
  std::string folder_;
};

}  // namespace athanor::chaos
