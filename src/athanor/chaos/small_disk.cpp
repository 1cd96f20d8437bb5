#include "athanor/chaos/small_disk.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "athanor/base/file.h"
#include "athanor/control/descriptor.h"

namespace athanor::chaos {
namespace {

void write_text(const char* path, const std::string& text) {
  const control::Descriptor file(open(path, O_WRONLY | O_CLOEXEC));
  if (file.get() < 0 || write(file.get(), text.data(), text.size()) < 0) throw_io_error("write", path, errno);
}

// A mount namespace of its own, from which nothing gets out.
void leave_mounts_alone() {
  const unsigned user = getuid(), group = getgid();
  if (unshare(CLONE_NEWNS) != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) throw_io_error("make a mount namespace for", "/", errno);
    write_text("/proc/self/setgroups", "deny");
    write_text("/proc/self/uid_map", fmt::format("0 {} 1", user));
    write_text("/proc/self/gid_map", fmt::format("0 {} 1", group));
  }
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    throw_io_error("make private the mounts of", "/", errno);
}

}  // namespace

std::string SmallDisk::refused() {
  try {
    const std::string folder =
        std::filesystem::temp_directory_path() / fmt::format("athanor_disk_{}", getpid());
    { const SmallDisk disk(folder, 1 << 20); }
    std::filesystem::remove(folder);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

SmallDisk::SmallDisk(const std::string& folder, uint64_t size_bytes) : folder_(folder) {
  leave_mounts_alone();
  system_env().create_folders(folder);
  if (mount("tmpfs", folder.c_str(), "tmpfs", 0, fmt::format("size={}", size_bytes).c_str()) != 0)
    throw_io_error("mount a tmpfs at", folder, errno);
}

SmallDisk::~SmallDisk() {
  umount2(folder_.c_str(), MNT_DETACH);
}

void SmallDisk::fill(uint64_t leave_bytes) {
  const std::string path = join_path(folder_, "filler");
  struct statvfs free {};
  if (statvfs(folder_.c_str(), &free) != 0) throw_io_error("look at", folder_, errno);
  const control::Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (file.get() < 0) throw_io_error("make", path, errno);
  const uint64_t left = free.f_bavail * free.f_frsize;
  const uint64_t wanted = left > leave_bytes ? left - leave_bytes : 0;
  struct stat filler {};
  if (fstat(file.get(), &filler) != 0) throw_io_error("look at", path, errno);
  auto end = static_cast<uint64_t>(filler.st_size);
  const uint64_t until = end + wanted;
  for (const uint64_t piece : {uint64_t{16} << 20, uint64_t{1} << 20, uint64_t{64} << 10, uint64_t{4} << 10})
    while (end + piece <= until &&
           posix_fallocate(file.get(), static_cast<off_t>(end), static_cast<off_t>(piece)) == 0)
      end += piece;  // whoever writes meanwhile takes some of it
}

void SmallDisk::free() {
  system_env().remove_all(join_path(folder_, "filler"));
}

}  // namespace athanor::chaos
