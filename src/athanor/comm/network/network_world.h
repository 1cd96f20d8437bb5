// The World over a network transport (Wire). A group is a set of channels of the transport, so making one costs nothing
// and sends nothing. The channels derive from the group's name and how many groups of that name there were before; the
// member list is compared in every call. Errors and thread rule: World's.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "athanor/base/shared_memory.h"
#include "athanor/comm/network/transport.h"
#include "athanor/comm/options.h"
#include "athanor/comm/world.h"

namespace athanor::comm::network {

class WireWorld final : public World {
 public:
  WireWorld(std::shared_ptr<Wire> wire, GroupOptions options);

  int rank() const override { return wire_->rank(); }
  int size() const override { return wire_->size(); }
  int generation() const override { return options_.generation; }
  Group& all() override { return *all_; }
  std::shared_ptr<std::byte> allocate(size_t size_bytes) override { return map_shared_memory(size_bytes); }
  std::unique_ptr<Group> make_group(std::vector<int> members, std::string name) override;
  void abort(const std::string& reason) override;

 private:
  std::shared_ptr<Wire> wire_;
  GroupOptions options_;
  struct Made {  // the groups of one name
    std::vector<int> members;
    int times = 0;
    std::weak_ptr<int> alive;  // expires when the latest group is destroyed
  };
  std::map<std::string, Made> made_;
  std::unique_ptr<Group> all_;
};

}  // namespace athanor::comm::network
