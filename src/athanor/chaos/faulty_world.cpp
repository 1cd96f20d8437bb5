#include "athanor/chaos/faulty_world.h"

#include <chrono>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include "athanor/comm/group.h"

namespace athanor::chaos {
namespace {

using Act = PlannedFault::Act;

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

// One bit of a value that is not zero: of none that decides between finite and not. From 1 on that bit is the highest of the
// mantissa, which no rounding hides.
void flip_bit(void* values, int64_t count, double which) {
  constexpr int kBits = 30;
  auto* words = static_cast<uint32_t*>(values);
  constexpr int kHighest = 22;
  const double place = (which < 1.0 ? which : which - 1.0) * static_cast<double>(count);
  auto at = static_cast<int64_t>(place);
  const int bit = which < 1.0 ? static_cast<int>((place - static_cast<double>(at)) * kBits) : kHighest;
  for (int64_t i = 0; i < count && words[at] == 0; ++i) at = (at + 1) % count;
  words[at] ^= uint32_t{1} << bit;
}

class FaultyGroup final : public Group {
 public:
  FaultyGroup(std::unique_ptr<Group> owned, Group& real, int rank, std::shared_ptr<FaultPlan> plan)
      : owned_(std::move(owned)), real_(real), rank_(rank), plan_(std::move(plan)) {}
  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  const std::string& name() const override { return real_.name(); }
  Work start(Call call, Buffers buffers, Start how) override {
    const auto fault = plan_->next_call(rank_, call);
    const std::string name = call.name;
    std::string& next = next_names_[std::exchange(last_name_, name)];
    next = name;
    if (!fault) return real_.start(std::move(call), std::move(buffers), how);
    switch (fault->act) {
      case Act::nan_gradient:
        poison(call, buffers);
        break;
      case Act::flip_gradient: {
        void* const values = buffers.out;
        const int64_t count = call.count;
        real_.start(std::move(call), std::move(buffers), Start::at_once).wait();
        flip_bit(values, count, fault->amount);
        return Work();
      }
      case Act::skip:
        return Work();
      case Act::delay:
        std::this_thread::sleep_for(std::chrono::duration<double>(fault->amount));
        break;
      case Act::reorder:
        call.name = other_than(name, next_names_.contains(name) ? next_names_[name] : "");
        break;
      case Act::mismatch:
        if (call.count > 1)
          --call.count;
        else
          call.name = other_than(name, "");
        break;
    }
    return real_.start(std::move(call), std::move(buffers), how);
  }
  Traffic traffic() const override { return real_.traffic(); }
  void throw_if_broken() override { real_.throw_if_broken(); }
  void abort(const std::string& reason) override { real_.abort(reason); }

 private:
  static std::string other_than(const std::string& name, const std::string& next) {
    return next.empty() || next == name ? name + ", another one" : next;
  }

  std::unique_ptr<Group> owned_;
  Group& real_;
  int rank_;  // of the world
  std::shared_ptr<FaultPlan> plan_;
  std::string last_name_;
  std::map<std::string, std::string> next_names_;  // of the call that came after one of this name
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
