#include "athanor/comm/shm.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "athanor/base/check.h"
#include "athanor/comm/slot_group.h"

namespace athanor {

namespace {

[[noreturn]] void fail_io(const std::string& what) {
  const int code = errno;
  throw IoError(fmt::format("{}: {}", what, std::strerror(code)), code);
}

std::shared_ptr<void> map(int fd, size_t size_bytes) {
  void* memory = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) fail_io(fmt::format("shared segment: cannot map {} bytes", size_bytes));
  return {memory, [size_bytes](void* address) { munmap(address, size_bytes); }};
}

// What the kernel says of a process. Its start tells it from a later process with the same number.
struct ProcessState {
  bool running = false;
  int64_t start = 0;  // clock ticks since boot; 0 if unknown
};

ProcessState state_of(int64_t process) {
  const std::string path = fmt::format("/proc/{}/stat", process);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {!(kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH), 0};
  char text[1024];
  const ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (length <= 0) return {false, 0};  // it ended between open and read
  text[length] = '\0';
  // "123 (name) S ...": the name may hold anything, so from the last parenthesis: state, then 18 fields,
  // start.
  const char* after = std::strrchr(text, ')');
  char state = 0;
  unsigned long long start = 0;
  if (after == nullptr ||
      std::sscanf(after + 1,
                  " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", &state,
                  &start) != 2)
    return {true, 0};
  return {state != 'Z' && state != 'X' && state != 'x', static_cast<int64_t>(start)};
}

// Shared regions lie behind the arena in the same file, which has pages only where it is written to.
uint64_t shared_offset(const SlotArena& arena) {
  return (SlotArena::bytes(arena.size(), arena.slot_bytes()) + kSharedUnit - 1) / kSharedUnit * kSharedUnit;
}

std::string death_of(const SlotArena& arena, int rank) {
  const auto& control = arena.control(rank);
  const int64_t process = control.process.load(), start = control.process_start.load();
  const ProcessState state = state_of(process);
  if (state.running && (state.start == start || state.start == 0 || start == 0)) return "";
  return fmt::format("its process {} has died", process);
}

}  // namespace

size_t shm_segment_bytes(int size, size_t slot_bytes) {
  return SlotArena::bytes(size, slot_bytes);
}

ShmSegment::ShmSegment(int size, size_t slot_bytes) {
  const size_t size_bytes = shm_segment_bytes(size, slot_bytes);
  fd_ = memfd_create("athanor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd_ < 0) fail_io("shared segment: memfd_create");
  try {
    if (ftruncate(fd_, static_cast<off_t>(size_bytes)) != 0)
      fail_io(fmt::format("shared segment: cannot reserve {} bytes", size_bytes));
    if (fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) fail_io("shared segment: seals");
    memory_ = map(fd_, size_bytes);
  } catch (const Failure&) {
    close(fd_);
    throw;
  }
  arena_ = SlotArena::create(memory_.get(), size, slot_bytes);
}

ShmSegment::~ShmSegment() {
  close(fd_);
}

void ShmSegment::mark_dead(int rank, const std::string& reason) {
  check(0 <= rank && rank < arena_->size(), "shared segment: rank {} of {}", rank, arena_->size());
  arena_->fail({GroupFailure::Kind::peer_lost, rank, fmt::format("rank {} was lost: {}", rank, reason)});
}

void ShmSegment::mark_left(int rank) {
  check(0 <= rank && rank < arena_->size(), "shared segment: rank {} of {}", rank, arena_->size());
  arena_->set_presence(rank, Presence::left);
}

std::unique_ptr<Group> open_shm_group(int fd, int rank, int size, const GroupOptions& options) {
  const std::string what = fmt::format("shared segment (file descriptor {})", fd);
  struct stat status {};
  if (fstat(fd, &status) != 0) fail_io(what);
  check(S_ISREG(status.st_mode) && (fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) != 0,
        "{}: not a segment made by this program's launcher", what);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  const auto size_bytes = static_cast<size_t>(status.st_size);
  check(size_bytes > 0, "{}: is empty", what);
  const std::shared_ptr<void> memory = map(fd, size_bytes);
  const SlotArena arena = SlotArena::attach(memory.get(), size_bytes, what);
  check(arena.size() == size, "{}: made for {} ranks, expected {}", what, arena.size(), size);
  check(0 <= rank && rank < size, "{}: rank {}, expected one of 0 ... {}", what, rank, size - 1);
  RankControl& control = arena.control(rank);
  const int64_t me = getpid();
  int64_t taken = 0;
  check(control.process.compare_exchange_strong(taken, me), "{}: rank {} has been taken by process {}", what,
        rank, taken);
  control.process_start.store(state_of(me).start);
  arena.set_presence(rank, Presence::joined);
  const std::shared_ptr<int> kept(new int(fcntl(fd, F_DUPFD_CLOEXEC, 0)), [](const int* copy) {
    if (*copy >= 0) close(*copy);
    delete copy;
  });
  if (*kept < 0) fail_io(what);
  return std::make_unique<SlotGroup>(
      SlotGroup::Transport{.arena = arena,
                           .memory = memory,
                           .death_of = [arena](int other) { return death_of(arena, other); },
                           .map_shared =
                               [kept, first = shared_offset(arena)](uint64_t offset, size_t bytes) {
                                 return map_shared_memory(bytes, *kept, first + offset);
                               },
                           .release_advice = MADV_REMOVE},
      rank, options);
}

}  // namespace athanor
