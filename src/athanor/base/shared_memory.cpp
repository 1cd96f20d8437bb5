#include "athanor/base/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "athanor/base/check.h"

namespace athanor::base {
namespace {

[[noreturn]] void fail_memory(const std::string& what) {
  const int code = errno;
  throw IoError(fmt::format("shared memory: {}: {}", what, std::strerror(code)), code);
}

}  // namespace

size_t whole_shared_units(size_t size_bytes) {
  return (std::max(size_bytes, size_t{1}) + kSharedUnit - 1) / kSharedUnit * kSharedUnit;
}

int create_shared_memory(const char* name, size_t size_bytes) {
  const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) fail_memory("memfd_create");
  if (ftruncate(fd, static_cast<off_t>(size_bytes)) == 0 &&
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) == 0)
    return fd;
  const int code = errno;
  close(fd);
  errno = code;
  fail_memory(fmt::format("cannot reserve {} bytes", size_bytes));
}

void lengthen_file(int fd, uint64_t end) {
  const auto is_long_enough = [&] {
    struct stat status {};
    return fstat(fd, &status) == 0 && static_cast<uint64_t>(status.st_size) >= end;
  };
  if (is_long_enough() || ftruncate(fd, static_cast<off_t>(end)) == 0) return;
  const int code = errno;
  if (is_long_enough()) return;
  errno = code;
  fail_memory(fmt::format("cannot reserve {} bytes", end));
}

std::shared_ptr<std::byte> map_shared_memory(size_t size_bytes, int fd, uint64_t offset) {
  const size_t mapped_bytes = whole_shared_units(size_bytes);
  if (fd >= 0) lengthen_file(fd, offset + mapped_bytes);
  // Reserves addresses that begin at a multiple of a huge page; the excess at both ends is unmapped.
  void* found = mmap(nullptr, mapped_bytes + kSharedUnit, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) fail_memory(fmt::format("no addresses for {} bytes", mapped_bytes));
  auto* first = static_cast<std::byte*>(found);
  std::byte* begin = first + (kSharedUnit - reinterpret_cast<uintptr_t>(found) % kSharedUnit) % kSharedUnit;
  if (begin > first) munmap(first, static_cast<size_t>(begin - first));
  munmap(begin + mapped_bytes, kSharedUnit - static_cast<size_t>(begin - first));
  const int kind = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  if (mmap(begin, mapped_bytes, PROT_READ | PROT_WRITE, MAP_FIXED | kind, fd, static_cast<off_t>(offset)) ==
      MAP_FAILED) {
    const int code = errno;
    munmap(begin, mapped_bytes);
    errno = code;
    fail_memory(fmt::format("cannot map {} bytes", mapped_bytes));
  }
  madvise(begin, mapped_bytes, MADV_HUGEPAGE);
  return {begin, [mapped_bytes](std::byte* memory) { munmap(memory, mapped_bytes); }};
}

}  // namespace athanor::base
