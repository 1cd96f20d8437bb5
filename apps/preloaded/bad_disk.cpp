// athanor_disk.so, which LD_PRELOAD brings into the processes of a trial of chaos: the disk goes wrong for files under the folder
// that ATHANOR_DISK_FOLDER names, in the way that stands in the file that ATHANOR_DISK_FILE names. Whoever changes it there makes
// the disk bad or good; there the calls that met it are counted, too.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>

namespace {

// As in chaos/kinds/bad_disk.cpp.
enum Way : int64_t { good, fails, writes_short, loses, hangs };
struct Disk {
  std::atomic<int64_t> way, num_calls;
};

// null: not a process of a trial
Disk* map_disk() {
  const char* path = std::getenv("ATHANOR_DISK_FILE");
  if (path == nullptr) return nullptr;
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* mapped = mmap(nullptr, sizeof(Disk), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return mapped == MAP_FAILED ? nullptr : static_cast<Disk*>(mapped);
}

bool lies_there(int fd) {
  static const char* const folder = std::getenv("ATHANOR_DISK_FOLDER");
  if (folder == nullptr) return false;
  std::array<char, 64> link{};
  std::array<char, 4096> path{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link.data(), path.data(), path.size());
  return length > 0 && std::string_view(path.data(), static_cast<size_t>(length)).starts_with(folder);
}

// The disk, where it is bad for this file.
Disk* bad_disk(int fd) {
  static Disk* const disk = map_disk();
  return disk != nullptr && disk->way != good && lies_there(fd) ? disk : nullptr;
}

size_t about_half(int fd, size_t count) {
  constexpr size_t kBlock = 4096;
  if (count >= 2 * kBlock) return count / 2 / kBlock * kBlock;
  return (fcntl(fd, F_GETFL) & O_DIRECT) != 0 ? count : (count + 1) / 2;
}

using Write = ssize_t (*)(int, const void*, size_t);
using Fsync = int (*)(int);

}  // namespace

extern "C" ssize_t write(int fd, const void* data, size_t count) {
  static const auto real = reinterpret_cast<Write>(dlsym(RTLD_NEXT, "write"));
  Disk* const disk = bad_disk(fd);
  if (disk == nullptr || disk->way == hangs) return real(fd, data, count);
  ++disk->num_calls;
  if (disk->way == fails) {
    errno = EIO;
    return -1;
  }
  const bool loses_it = disk->way == loses;
  const ssize_t written = real(fd, data, about_half(fd, count));
  return loses_it && written >= 0 ? static_cast<ssize_t>(count) : written;
}

extern "C" int fsync(int fd) {
  static const auto real = reinterpret_cast<Fsync>(dlsym(RTLD_NEXT, "fsync"));
  Disk* const disk = bad_disk(fd);
  if (disk == nullptr) return real(fd);
  ++disk->num_calls;
  if (disk->way == fails) {
    errno = EIO;
    return -1;
  }
  while (disk->way == hangs) {
    const timespec moment{.tv_sec = 0, .tv_nsec = 1'000'000};
    nanosleep(&moment, nullptr);
  }
  return real(fd);
}
