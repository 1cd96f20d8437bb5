#include "athanor/comm/network/network_world.h"

#include <numeric>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"
#include "athanor/comm/network/network_group.h"

namespace athanor::comm::network {

WireWorld::WireWorld(std::shared_ptr<Wire> wire, GroupOptions options)
    : wire_(std::move(wire)), options_(std::move(options)) {
  std::vector<int> everybody(static_cast<size_t>(size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  // With kEveryGroup as its id, a failure of the world's group breaks every group.
  all_ = size() == 1 ? make_single_group(options_.name)
                     : std::make_unique<WireGroup>(
                           wire_, std::move(everybody),
                           WireGroupIds{Wire::kEveryGroup, hash64(std::string_view("the world"))}, options_);
}

std::unique_ptr<Group> WireWorld::make_group(std::vector<int> members, std::string name) {
  check_members(*this, members, name);
  if (members.size() == 1) return make_single_group(std::move(name));
  if (const auto failure = wire_->failure(Wire::kEveryGroup)) failure->raise();
  Made& made = made_[name];
  check(made.alive.expired(), "group '{}': rank {} has made it already", name, rank());
  check(made.times == 0 || made.members == members,
        "group '{}': rank {} says its members are {}; before it said {}", name, rank(), members_text(members),
        members_text(made.members));
  made.members = members;
  const auto alive = std::make_shared<int>();
  made.alive = alive;
  const uint64_t channels = hash64(fmt::format("{} {}", name, made.times++));
  const uint64_t id = hash64(members_text(members), channels);
  GroupOptions options = options_;
  options.name = std::move(name);
  return std::make_unique<WireGroup>(wire_, std::move(members), WireGroupIds{id, channels},
                                     std::move(options), alive);
}

void WireWorld::abort(const std::string& reason) {
  wire_->fail(Wire::kEveryGroup, {GroupFailure::Kind::aborted, rank(),
                                  fmt::format("rank {} aborted {}: {}", rank(), options_.text(), reason)});
}

}  // namespace athanor::comm::network
