// A World over a SlotArena and a GroupDirectory, for ranks as threads or processes of one host. Each group has an arena
// of its own, in a range of memory that the transport maps when a member joins. Errors and thread rule: World's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "athanor/comm/group_directory.h"
#include "athanor/comm/shm/shm_group.h"
#include "athanor/comm/world.h"

namespace athanor::comm::shm {

class SlotWorld final : public World {
 public:
  // The memory of groups: a range is a run of zeroed bytes, practically unlimited, the same memory for all ranks.
  struct Ranges {
    std::function<std::shared_ptr<void>(uint64_t range, size_t size_bytes)> map;  // the first size_bytes
    std::function<void(uint64_t range, size_t size_bytes)> release;  // the range will not be mapped again
  };

  // `transport` is for all(). Its memory also keeps `directory` (GroupDirectory::bytes()) alive.
  SlotWorld(SlotGroup::Transport transport, void* directory, Ranges ranges, int rank, GroupOptions options);

  int rank() const override { return rank_; }
  int size() const override { return all_.size(); }
  int generation() const override;
  Group& all() override { return all_; }
  std::shared_ptr<std::byte> allocate(size_t size_bytes) override;
  std::unique_ptr<Group> make_group(std::vector<int> members, std::string name) override;
  void abort(const std::string& reason) override { all_.abort(reason); }

 private:
  struct Shared;  // state that groups need; they may outlive the world
  class Seat;
  int rank_;
  std::shared_ptr<Shared> shared_;
  SlotGroup all_;
};

}  // namespace athanor::comm::shm
