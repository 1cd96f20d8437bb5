// World::subset(): a world in front of another one. Its groups are groups of the other world that also look at all().
#include <atomic>
#include <mutex>
#include <set>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/comm/world.h"

namespace athanor::comm {

namespace {

constexpr int64_t kLookNs = 25'000'000;  // as often as the groups of one host look for a broken world

// What the groups of a subset share; they may outlive its world.
class Members {
 public:
  explicit Members(std::unique_ptr<Group> all) : all_(std::move(all)) {}
  Group& all() { return *all_; }

  void look() {
    try {
      looked_ns_ = now_ns();
      all_->throw_if_broken();
    } catch (const Failure& failure) {
      break_groups(failure.what());
      throw;
    }
  }
  void look_now_and_then() {
    if (now_ns() - looked_ns_ >= kLookNs) look();
  }
  void break_groups(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    for (Group* group : groups_) group->abort(reason);
  }
  void add(Group& group) {
    const std::lock_guard lock(mutex_);
    groups_.insert(&group);
  }
  void remove(Group& group) {
    const std::lock_guard lock(mutex_);
    groups_.erase(&group);
  }

 private:
  std::unique_ptr<Group> all_;
  std::atomic<int64_t> looked_ns_ = 0;
  std::mutex mutex_;
  std::set<Group*> groups_;
};

class SubsetGroup final : public Group {
 public:
  SubsetGroup(std::shared_ptr<Members> members, std::unique_ptr<Group> group)
      : members_(std::move(members)), group_(std::move(group)) {
    members_->add(*group_);
  }
  // If all() is broken, those who still wait in this group get its reason, and not only that this rank has left.
  ~SubsetGroup() override {
    try {
      members_->look();
    } catch (const Failure&) {  // a destructor cannot throw
    }
    members_->remove(*group_);
  }
  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  const std::string& name() const override { return group_->name(); }
  Work start(Call call, Buffers buffers, Start how) override {
    members_->look_now_and_then();
    return group_->start(std::move(call), std::move(buffers), how);
  }
  Traffic traffic() const override { return group_->traffic(); }
  void throw_if_broken() override {
    members_->look();
    group_->throw_if_broken();
  }
  void abort(const std::string& reason) override { group_->abort(reason); }

 private:
  std::shared_ptr<Members> members_;
  std::unique_ptr<Group> group_;
};

class SubsetWorld final : public World {
 public:
  SubsetWorld(World& whole, std::vector<int> ranks, const std::string& name)
      : whole_(whole),
        name_(name),
        rank_(check_members(whole, ranks, name)),
        ranks_(std::move(ranks)),
        members_(std::make_shared<Members>(whole.make_group(ranks_, name))) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  int generation() const override { return whole_.generation(); }
  Group& all() override { return members_->all(); }
  std::shared_ptr<std::byte> allocate(size_t size_bytes) override { return whole_.allocate(size_bytes); }
  std::unique_ptr<Group> make_group(std::vector<int> members, std::string name) override {
    check_members(*this, members, name);
    members_->look();
    for (int& member : members) member = ranks_[static_cast<size_t>(member)];
    return std::make_unique<SubsetGroup>(members_, whole_.make_group(std::move(members), name_ + "/" + name));
  }
  void abort(const std::string& reason) override {
    members_->all().abort(reason);
    members_->break_groups(reason);
  }

 private:
  World& whole_;
  const std::string name_;
  int rank_;
  std::vector<int> ranks_;
  std::shared_ptr<Members> members_;
};

}  // namespace

std::unique_ptr<World> World::subset(std::vector<int> members, const std::string& name) {
  return std::make_unique<SubsetWorld>(*this, std::move(members), name);
}

}  // namespace athanor::comm
