#include "athanor/comm/hierarchical/hierarchical_world.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/comm/hierarchical/hierarchical.h"

namespace athanor::comm::hierarchical {

namespace {

class HierarchicalWorld final : public World {
 public:
  HierarchicalWorld(std::unique_ptr<World> host, std::unique_ptr<World> everybody,
                    const GroupOptions& options)
      : host_(std::move(host)), everybody_(std::move(everybody)), options_(options) {
    check(
        size() % host_->size() == 0 && rank() % host_->size() == host_->rank(),
        "world: rank {} of {} is rank {} of {} on its host, expected as many ranks, one after the other, on "
        "each host",
        rank(), size(), host_->rank(), host_->size());
    check(host_->generation() == generation(), "world: rank {} is of generation {} on its host, {} among all",
          rank(), host_->generation(), generation());
    options_.generation = generation();
    std::vector<int> members(static_cast<size_t>(size()));
    std::iota(members.begin(), members.end(), 0);
    all_ = make_group(std::move(members), options_.name);
  }

  int rank() const override { return everybody_->rank(); }
  int size() const override { return everybody_->size(); }
  int generation() const override { return everybody_->generation(); }
  Group& all() override { return *all_; }
  std::shared_ptr<std::byte> allocate(size_t size_bytes) override { return host_->allocate(size_bytes); }

  std::unique_ptr<Group> make_group(std::vector<int> members, std::string name) override {
    check_members(*this, members, name);
    const int n = host_->size();
    std::map<int, std::vector<int>> by_host;  // by host: its members' numbers on the host
    for (const int member : members) by_host[member / n].push_back(member % n);
    const std::vector<int>& here = by_host.at(rank() / n);
    if (by_host.size() == 1) return host_->make_group(here, std::move(name));
    const bool even = std::all_of(by_host.begin(), by_host.end(),
                                  [&](const auto& host) { return host.second.size() == here.size(); });
    if (!even || here.size() == 1) return everybody_->make_group(std::move(members), std::move(name));
    // The outer group: of each host the member with the same index among its host's members as this rank.
    const auto place = std::find(here.begin(), here.end(), host_->rank()) - here.begin();
    std::vector<int> across;
    for (const auto& [host, numbers] : by_host)
      across.push_back(host * n + numbers[static_cast<size_t>(place)]);
    GroupOptions options = options_;
    options.name = name;
    return std::make_unique<HierarchicalGroup>(
        host_->make_group(here, name), everybody_->make_group(std::move(across), name + ", between hosts"),
        everybody_->make_group(std::move(members), name + ", messages"), options);
  }

  void abort(const std::string& reason) override {
    host_->abort(reason);
    everybody_->abort(reason);
  }

 private:
  std::unique_ptr<World> host_, everybody_;
  GroupOptions options_;
  std::unique_ptr<Group> all_;
};

}  // namespace

std::unique_ptr<World> make_hierarchical_world(std::unique_ptr<World> host, std::unique_ptr<World> everybody,
                                               const GroupOptions& options) {
  return std::make_unique<HierarchicalWorld>(std::move(host), std::move(everybody), options);
}

}  // namespace athanor::comm::hierarchical
