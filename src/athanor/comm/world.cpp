#include "athanor/comm/world.h"

#include <algorithm>

#include "athanor/base/check.h"
#include "athanor/base/shared_memory.h"

namespace athanor::comm {

namespace {

class SingleWorld final : public World {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Group& all() override { return *all_; }
  std::shared_ptr<std::byte> allocate(size_t size_bytes) override { return map_shared_memory(size_bytes); }
  std::unique_ptr<Group> make_group(std::vector<int> members, std::string name) override {
    check_members(*this, members, name);
    return make_single_group(std::move(name));
  }
  void abort(const std::string& reason) override { all_->abort(reason); }

 private:
  std::unique_ptr<Group> all_ = make_single_group();
};

}  // namespace

std::unique_ptr<World> make_single_world() {
  return std::make_unique<SingleWorld>();
}

int check_members(const World& world, const std::vector<int>& members, const std::string& name) {
  for (size_t i = 0; i < members.size(); ++i) {
    check(0 <= members[i] && members[i] < world.size(), "group '{}': member {}, expected ranks of 0 ... {}",
          name, members[i], world.size() - 1);
    check(i == 0 || members[i - 1] < members[i], "group '{}': member {} after {}, expected an ascending list",
          name, members[i], members[i == 0 ? 0 : i - 1]);
  }
  const auto own = std::find(members.begin(), members.end(), world.rank());
  check(own != members.end(), "group '{}': made by rank {}, which is not one of its members {}", name,
        world.rank(), members_text(members));
  return static_cast<int>(own - members.begin());
}

std::string members_text(const std::vector<int>& members) {
  std::string text;
  for (size_t i = 0; i < members.size();) {
    size_t last = i;
    while (last + 1 < members.size() && members[last + 1] == members[last] + 1) ++last;
    if (last < i + 2) last = i;  // two ranks are written 4, 5
    text += (i > 0 ? ", " : "") + std::to_string(members[i]);
    if (last > i) text += "-" + std::to_string(members[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace athanor::comm
