#include "athanor/comm/shm/shm_world.h"

#include "athanor/base/check.h"

namespace athanor::comm::shm {

namespace {

GroupOptions with_name(GroupOptions options, std::string name) {
  options.name = std::move(name);
  return options;
}

}  // namespace

struct SlotWorld::Shared {
  SlotGroup::Transport transport;
  Ranges ranges;
  GroupOptions options;
  GroupDirectory directory;
  size_t arena_bytes(int group_size) const { return SlotArena::bytes(group_size, slot_bytes()); }
  size_t slot_bytes() const { return transport.arena.slot_bytes(); }
};

// A rank's membership in a group: keeps the group's memory mapped; its destructor unmaps it and then leaves the
// directory.
class SlotWorld::Seat {
 public:
  Seat(std::shared_ptr<Shared> shared, uint64_t range, int group_size)
      : shared_(std::move(shared)), range_(range) {
    try {
      memory = shared_->ranges.map(range_, shared_->arena_bytes(group_size));
    } catch (const Failure&) {
      leave();
      throw;
    }
  }
  ~Seat() {
    memory.reset();
    leave();
  }
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

  std::shared_ptr<void> memory;

 private:
  void leave() {
    try {
      shared_->directory.leave(range_);
    } catch (const Failure&) {  // a rank died while it held the lock: the entry stays for ever
    }
  }
  std::shared_ptr<Shared> shared_;
  uint64_t range_;
};

SlotWorld::SlotWorld(SlotGroup::Transport transport, void* directory, Ranges ranges, int rank,
                     GroupOptions options)
    : rank_(rank), all_(transport, rank, options) {
  const auto bytes_of = [slot_bytes = transport.arena.slot_bytes()](int group_size) {
    return SlotArena::bytes(group_size, slot_bytes);
  };
  GroupDirectory::Hooks hooks;
  hooks.death_of = transport.death_of;
  hooks.format = [bytes_of, map = ranges.map, slot_bytes = transport.arena.slot_bytes()](uint64_t range,
                                                                                         int group_size) {
    SlotArena::create(map(range, bytes_of(group_size)).get(), group_size, slot_bytes);
  };
  hooks.fail = [bytes_of, map = ranges.map](uint64_t range, int group_size, const std::string& reason) {
    const auto memory = map(range, bytes_of(group_size));
    SlotArena::attach(memory.get(), bytes_of(group_size), "a group of the world")
        .fail({GroupFailure::Kind::mismatch, 0, reason});
  };
  hooks.release = [bytes_of, release = ranges.release](uint64_t range, int group_size) {
    release(range, bytes_of(group_size));
  };
  shared_ = std::make_shared<Shared>(Shared{std::move(transport), std::move(ranges), std::move(options),
                                            GroupDirectory(directory, rank, std::move(hooks))});
}

int SlotWorld::generation() const {
  return shared_->options.generation;
}

std::shared_ptr<std::byte> SlotWorld::allocate(size_t size_bytes) {
  return shared_->transport.rank_memory.allocate(size_bytes);
}

std::unique_ptr<Group> SlotWorld::make_group(std::vector<int> members, std::string name) {
  const int own = check_members(*this, members, name);
  if (const auto failure = shared_->transport.arena.failure()) failure->raise();
  if (members.size() == 1) return make_single_group(std::move(name));
  const auto size = static_cast<int>(members.size());
  const uint64_t range = shared_->directory.join(members, name);
  const auto seat = std::make_shared<Seat>(shared_, range, size);
  const SlotArena arena =
      SlotArena::attach(seat->memory.get(), shared_->arena_bytes(size), fmt::format("group '{}'", name));
  if (const auto failure = arena.failure()) failure->raise();
  arena.set_presence(own, Presence::joined);
  SlotGroup::Transport transport{
      .arena = arena,
      .memory = seat,
      .death_of = [shared = shared_,
                   members](int r) { return shared->transport.death_of(members[static_cast<size_t>(r)]); },
      .rank_memory = shared_->transport.rank_memory,
      .membership = Membership{shared_->transport.arena, std::move(members)}};
  return std::make_unique<SlotGroup>(std::move(transport), own, with_name(shared_->options, std::move(name)));
}

}  // namespace athanor::comm::shm
