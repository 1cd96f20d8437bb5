// The World that a Wire makes: groups of any members are channels of the one wire, so that making one costs nothing
// and sends nothing. A group's messages meet by its name, and by how many of that name there were before; its
// members are compared with every call.
// Thread rule: World's.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "athanor/comm/options.h"
#include "athanor/comm/wire.h"
#include "athanor/comm/world.h"

namespace athanor {

class WireWorld final : public World {
 public:
  WireWorld(std::shared_ptr<Wire> wire, GroupOptions options);

  int rank() const override { return wire_->rank(); }
  int size() const override { return wire_->size(); }
  Group& all() override { return *all_; }
  std::unique_ptr<Group> make_group(std::vector<int> members, std::string name) override;
  void abort(const std::string& reason) override;

 private:
  std::shared_ptr<Wire> wire_;
  GroupOptions options_;
  struct Made {  // the groups of one name
    std::vector<int> members;
    int times = 0;
    std::weak_ptr<int> alive;  // the latest
  };
  std::map<std::string, Made> made_;
  std::unique_ptr<Group> all_;
};

}  // namespace athanor
