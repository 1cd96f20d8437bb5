#include "athanor/comm/shm/shm.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/shared_memory.h"
#include "athanor/comm/shm/shm_world.h"

namespace athanor::comm::shm {

namespace {

// Layout of the file's offsets: the segment, from here the ranges of groups, and from there the homes of ranks.
constexpr uint64_t kFirstRange = uint64_t{1} << 44, kRangeBytes = uint64_t{1} << 40;
constexpr uint64_t kFirstHome = uint64_t{1} << 61, kHomeBytes = uint64_t{1} << 44;

[[noreturn]] void fail_io(const std::string& what) {
  const int code = errno;
  throw IoError(fmt::format("{}: {}", what, std::strerror(code)), code);
}

std::shared_ptr<void> map(int fd, uint64_t offset, size_t size_bytes) {
  void* memory =
      mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (memory == MAP_FAILED) fail_io(fmt::format("shared segment: cannot map {} bytes", size_bytes));
  return {memory, [size_bytes](void* address) { munmap(address, size_bytes); }};
}

// State of a process as the kernel tells it. The start time distinguishes it from a later process with the same number.
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

// The memory that a rank allocates for its groups to share: a range of the file. It stays the rank's until it drops it,
// whatever becomes of groups.
class RankHome {
 public:
  RankHome(std::shared_ptr<int> fd, int rank)
      : fd_(std::move(fd)),
        next_(kFirstHome + static_cast<uint64_t>(rank) * kHomeBytes),
        end_(next_ + kHomeBytes) {}

  // `self` lives as long as the memory.
  static std::shared_ptr<std::byte> allocate(const std::shared_ptr<RankHome>& self, size_t size_bytes) {
    const size_t whole_bytes = whole_shared_units(size_bytes);
    uint64_t place = 0;
    {
      const std::lock_guard lock(self->mutex_);
      check(whole_bytes <= self->end_ - self->next_, "shared memory: {} bytes are too many", size_bytes);
      place = std::exchange(self->next_, self->next_ + whole_bytes);
    }
    std::shared_ptr<std::byte> mapped = map_shared_memory(whole_bytes, *self->fd_, place);
    std::byte* data = mapped.get();
    {
      const std::lock_guard lock(self->mutex_);
      self->places_[data] = {place, whole_bytes};
    }
    return {data, [self, mapped = std::move(mapped), whole_bytes](std::byte* first) mutable {
              {
                const std::lock_guard lock(self->mutex_);
                self->places_.erase(first);
              }
              madvise(first, whole_bytes, MADV_REMOVE);  // if it fails, the file's end frees the memory
              mapped.reset();
            }};
  }
  uint64_t place_of(const std::byte* own) const {
    const std::lock_guard lock(mutex_);
    auto found = places_.upper_bound(own);
    if (found == places_.begin()) return 0;
    --found;
    const auto offset = static_cast<uint64_t>(own - found->first);
    return offset < found->second.second ? found->second.first + offset : 0;
  }
  std::shared_ptr<std::byte> open(uint64_t place, size_t size_bytes) const {
    const uint64_t first = place / kSharedUnit * kSharedUnit;  // maps begin at whole units
    const std::shared_ptr<std::byte> mapped = map_shared_memory(size_bytes + (place - first), *fd_, first);
    return {mapped, mapped.get() + (place - first)};
  }

 private:
  std::shared_ptr<int> fd_;
  mutable std::mutex mutex_;
  uint64_t next_, end_;
  std::map<const std::byte*, std::pair<uint64_t, size_t>, std::less<>> places_;  // by address: offset, bytes
};

std::string death_of(const SlotArena& arena, int rank) {
  const auto& control = arena.control(rank);
  const int64_t process = control.process.load(), start = control.process_start.load();
  const ProcessState state = state_of(process);
  if (state.running && (state.start == start || state.start == 0 || start == 0)) return "";
  return fmt::format("its process {} has died", process);
}

}  // namespace

namespace {

struct MappedSegment {
  std::shared_ptr<void> memory;
  SlotArena arena;
};

MappedSegment map_segment(int fd, const std::string& what) {
  struct stat status {};
  if (fstat(fd, &status) != 0) fail_io(what);
  check(S_ISREG(status.st_mode) && (fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) != 0,
        "{}: not a segment made by this program's launcher", what);
  const auto file_bytes = static_cast<size_t>(status.st_size);
  check(file_bytes > 0, "{}: is empty", what);
  size_t size_bytes = 0;  // of the file without regions and groups
  {
    const std::shared_ptr<void> header = map(fd, 0, 4096);
    const SlotArena arena = SlotArena::attach(header.get(), file_bytes, what);
    size_bytes = shm_segment_bytes(arena.size(), arena.slot_bytes());
  }
  check(size_bytes <= file_bytes, "{}: {} bytes, expected {}", what, file_bytes, size_bytes);
  std::shared_ptr<void> memory = map(fd, 0, size_bytes);
  const SlotArena arena = SlotArena::attach(memory.get(), size_bytes, what);
  return {std::move(memory), arena};
}

}  // namespace

size_t shm_segment_bytes(int size, size_t slot_bytes) {
  return SlotArena::bytes(size, slot_bytes) + GroupDirectory::bytes();
}

ShmSegment::ShmSegment(int size, size_t slot_bytes, int generation) {
  const size_t size_bytes = shm_segment_bytes(size, slot_bytes);
  fd_ = create_shared_memory("athanor", size_bytes);
  try {
    memory_ = map(fd_, 0, size_bytes);
  } catch (const Failure&) {
    close(fd_);
    throw;
  }
  arena_ = SlotArena::create(memory_.get(), size, slot_bytes, generation);
}

ShmSegment::ShmSegment(int fd, std::shared_ptr<void> memory, SlotArena arena)
    : fd_(fd), memory_(std::move(memory)), arena_(arena) {}

ShmSegment ShmSegment::adopt(int fd) {
  try {
    MappedSegment mapped = map_segment(fd, fmt::format("shared segment (file descriptor {})", fd));
    return ShmSegment(fd, std::move(mapped.memory), mapped.arena);
  } catch (const Failure&) {
    close(fd);
    throw;
  }
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

namespace {

// A segment as one rank has joined it.
struct Joined {
  std::shared_ptr<void> memory;
  SlotArena arena;
  std::shared_ptr<int> fd;  // a descriptor of its own, to map regions and groups later
};

Joined join_segment(int fd, int rank, int size, int generation) {
  const std::string what = fmt::format("shared segment (file descriptor {})", fd);
  const auto [memory, arena] = map_segment(fd, what);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  check(arena.size() == size, "{}: made for {} ranks, expected {}", what, arena.size(), size);
  check(arena.generation() == generation, "{}: of generation {} of the world; rank {} is of generation {}",
        what, arena.generation(), rank, generation);
  check(0 <= rank && rank < size, "{}: rank {}, expected one of 0 ... {}", what, rank, size - 1);
  RankControl& control = arena.control(rank);
  const int64_t me = getpid();
  int64_t taken = 0;
  check(control.process.compare_exchange_strong(taken, me), "{}: rank {} has been taken by process {}", what,
        rank, taken);
  control.process_start.store(state_of(me).start);
  arena.set_presence(rank, Presence::joined);
  std::shared_ptr<int> kept(new int(fcntl(fd, F_DUPFD_CLOEXEC, 0)), [](const int* copy) {
    if (*copy >= 0) close(*copy);
    delete copy;
  });
  if (*kept < 0) fail_io(what);
  return {memory, arena, std::move(kept)};
}

SlotGroup::Transport transport_of(const Joined& joined, int rank) {
  const auto home = std::make_shared<RankHome>(joined.fd, rank);
  return {.arena = joined.arena,
          .memory = joined.memory,
          .death_of = [arena = joined.arena](int other) { return death_of(arena, other); },
          .rank_memory = {
              .allocate = [home](size_t size_bytes) { return RankHome::allocate(home, size_bytes); },
              .place_of = [home](const std::byte* own) { return home->place_of(own); },
              .open = [home](uint64_t place, size_t size_bytes) { return home->open(place, size_bytes); }}};
}

}  // namespace

std::unique_ptr<Group> open_shm_group(int fd, int rank, int size, const GroupOptions& options) {
  return std::make_unique<SlotGroup>(transport_of(join_segment(fd, rank, size, options.generation), rank),
                                     rank, options);
}

std::unique_ptr<World> open_shm_world(int fd, int rank, int size, const GroupOptions& options) {
  const Joined joined = join_segment(fd, rank, size, options.generation);
  const auto begin = [](uint64_t range) { return kFirstRange + range * kRangeBytes; };
  const SlotWorld::Ranges ranges{
      .map = [kept = joined.fd, begin](uint64_t range, size_t bytes) -> std::shared_ptr<void> {
        lengthen_file(*kept, begin(range) + bytes);
        return map(*kept, begin(range), bytes);
      },
      .release = [kept = joined.fd, begin](uint64_t range,
                                           size_t bytes) {  // if it fails, the file's end frees the memory
        fallocate(*kept, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin(range)),
                  static_cast<off_t>(bytes));
      }};
  void* directory = static_cast<std::byte*>(joined.memory.get()) +
                    SlotArena::bytes(joined.arena.size(), joined.arena.slot_bytes());
  return std::make_unique<SlotWorld>(transport_of(joined, rank), directory, ranges, rank, options);
}

}  // namespace athanor::comm::shm
