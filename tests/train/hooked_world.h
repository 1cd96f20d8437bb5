// A world whose all() does something in some calls (faulty_group.h).
// Thread rule: that of the world.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "athanor/comm/world.h"
#include "train/faulty_group.h"

namespace athanor::tests {

class HookedWorld final : public World {
 public:
  HookedWorld(World& real, GroupFault fault) : real_(real), all_(real.all(), std::move(fault)) {}
  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  int generation() const override { return real_.generation(); }
  Group& all() override { return all_; }
  std::shared_ptr<std::byte> allocate(size_t size_bytes) override { return real_.allocate(size_bytes); }
  std::unique_ptr<Group> make_group(std::vector<int> members, std::string name) override {
    return real_.make_group(std::move(members), std::move(name));
  }
  void abort(const std::string& reason) override { real_.abort(reason); }

 private:
  World& real_;
  FaultyGroup all_;
};

}  // namespace athanor::tests
