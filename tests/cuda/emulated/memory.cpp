#include "cuda/emulated/memory.h"

#include <sys/mman.h>

#include <map>
#include <mutex>

namespace athanor::kernels::emulated {
namespace {

struct Memory {
  std::mutex mutex;
  std::map<void*, uint64_t> ranges;
  uint64_t used_bytes = 0;
  int users = 0;

  void protect(int rights) {
    for (const auto& [data, size_bytes] : ranges) ::mprotect(data, size_bytes, rights);
  }
};

// The one device of the process.
Memory& memory() {
  static Memory one;
  return one;
}

}  // namespace

void* allocate(uint64_t size_bytes) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  if (size_bytes == 0 || size_bytes > kDeviceBytes - m.used_bytes) return nullptr;
  void* data = ::mmap(nullptr, size_bytes, m.users > 0 ? PROT_READ | PROT_WRITE : PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  m.ranges.emplace(data, size_bytes);
  m.used_bytes += size_bytes;
  return data;
}

void release(void* data) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  const auto range = m.ranges.find(data);
  if (range == m.ranges.end()) return;
  ::munmap(data, range->second);
  m.used_bytes -= range->second;
  m.ranges.erase(range);
}

uint64_t free_bytes() {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  return kDeviceBytes - m.used_bytes;
}

bool is_of_device(const void* data) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  auto range = m.ranges.upper_bound(const_cast<void*>(data));
  if (range == m.ranges.begin()) return false;
  --range;
  return static_cast<const std::byte*>(data) < static_cast<const std::byte*>(range->first) + range->second;
}

DeviceAccess::DeviceAccess() {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  if (m.users++ == 0) m.protect(PROT_READ | PROT_WRITE);
}

DeviceAccess::~DeviceAccess() {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  if (--m.users == 0) m.protect(PROT_NONE);
}

}  // namespace athanor::kernels::emulated
