#include "athanor/chaos/faulty_world.h"

#include <cstring>
#include <utility>

#include "athanor/comm/group.h"

namespace athanor::chaos {
namespace {

constexpr std::string_view kStruck = "gradients", kEndsStep = "losses";

// The first bytes of what the rank gives become those of a NaN of any kind.
void poison(const Call& call, const Buffers& buffers) {
  const size_t bytes = size_of(call.dtype);
  for (const TreeNode& node : buffers.nodes)
    if (node.data != nullptr) {
      std::memset(node.data, 0xff, bytes);
      return;
    }
  void* given = buffers.in != nullptr ? const_cast<void*>(buffers.in) : buffers.out;
  if (given != nullptr) std::memset(given, 0xff, bytes);
}

class FaultyGroup final : public Group {
 public:
  FaultyGroup(std::unique_ptr<Group> owned, Group& real, int rank, std::shared_ptr<FaultPlan> plan)
      : owned_(std::move(owned)), real_(real), rank_(rank), plan_(std::move(plan)) {}
  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  const std::string& name() const override { return real_.name(); }
  Work start(Call call, Buffers buffers, Start how) override {
    if (call.name == kEndsStep) plan_->step_begins();  // the next one
    if (call.name.starts_with(kStruck) && plan_->take(rank_)) poison(call, buffers);
    return real_.start(std::move(call), std::move(buffers), how);
  }
  Traffic traffic() const override { return real_.traffic(); }
  void throw_if_broken() override { real_.throw_if_broken(); }
  void abort(const std::string& reason) override { real_.abort(reason); }

 private:
  std::unique_ptr<Group> owned_;
  Group& real_;
  int rank_;  // of the world
  std::shared_ptr<FaultPlan> plan_;
};

class FaultyWorld final : public World {
 public:
  FaultyWorld(World& real, std::shared_ptr<FaultPlan> plan)
      : real_(real), plan_(std::move(plan)), all_(nullptr, real.all(), real.rank(), plan_) {}
  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  int generation() const override { return real_.generation(); }
  Group& all() override { return all_; }
  std::shared_ptr<std::byte> allocate(size_t size_bytes) override { return real_.allocate(size_bytes); }
  std::unique_ptr<Group> make_group(std::vector<int> members, std::string name) override {
    std::unique_ptr<Group> group = real_.make_group(std::move(members), std::move(name));
    Group& of_real = *group;
    return std::make_unique<FaultyGroup>(std::move(group), of_real, rank(), plan_);
  }
  void abort(const std::string& reason) override { real_.abort(reason); }

 private:
  World& real_;
  std::shared_ptr<FaultPlan> plan_;
  FaultyGroup all_;
};

}  // namespace

std::unique_ptr<World> with_faults(World& real, std::shared_ptr<FaultPlan> plan) {
  return std::make_unique<FaultyWorld>(real, std::move(plan));
}

}  // namespace athanor::chaos
