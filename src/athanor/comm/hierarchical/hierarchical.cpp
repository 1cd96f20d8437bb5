#include "athanor/comm/hierarchical/hierarchical.h"

#include <utility>

#include "athanor/base/check.h"

namespace athanor::comm::hierarchical {

HierarchicalGroup::HierarchicalGroup(std::unique_ptr<Group> inner, std::unique_ptr<Group> outer,
                                     std::unique_ptr<Group> direct, const GroupOptions& options)
    : inner_(std::move(inner)),
      outer_(std::move(outer)),
      direct_(std::move(direct)),
      name_(options.name),
      text_(options.text()),
      queue_(options, [this](const std::exception& error) { return failure_of(error); }) {
  if (direct_)
    check(direct_->size() == size() && direct_->rank() == rank(),
          "{}: rank {} of {} is rank {} of {} of the group for messages", text_, rank(), size(),
          direct_->rank(), direct_->size());
}

HierarchicalGroup::~HierarchicalGroup() {
  queue_.finish();
}

Work HierarchicalGroup::start(Call call, Buffers buffers, Start how) {
  if (call.collective == Collective::send || call.collective == Collective::recv)
    return start_message(call, std::move(buffers), how);
  std::string name = call.name;
  return queue_.start(
      std::move(name),
      [this, call = std::move(call), buffers = std::move(buffers)] {
        {
          const std::lock_guard lock(mutex_);
          if (failure_) failure_->raise();
        }
        run(call, buffers);
      },
      how);
}

void HierarchicalGroup::inside(const std::function<void(Group& inner)>& step) {
  try {
    step(*inner_);
  } catch (const PeerLost& error) {
    const int rank = outer_->rank() * inner_->size() + error.rank();
    throw PeerLost(rank, fmt::format("rank {} was lost, inside its host: {}", rank, error.what()));
  }
}

void HierarchicalGroup::across(const std::function<void(Group& outer)>& step) {
  try {
    step(*outer_);
  } catch (const PeerLost& error) {
    const int rank = error.rank() * inner_->size() + inner_->rank();
    throw PeerLost(rank, fmt::format("rank {} was lost, between hosts: {}", rank, error.what()));
  }
}

GroupFailure HierarchicalGroup::failure_of(const std::exception& error) {
  break_levels(GroupFailure::of(error, rank()));
  const std::lock_guard lock(mutex_);
  return *failure_;
}

void HierarchicalGroup::break_levels(const GroupFailure& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = failure;
  }
  for (Group* group : {inner_.get(), outer_.get(), direct_.get()})
    if (group != nullptr) group->abort(failure.text);
}

void HierarchicalGroup::throw_if_broken() {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) failure_->raise();
  }
  const auto look = [](Group& group) { group.throw_if_broken(); };
  inside(look);
  across(look);
  if (direct_) direct_->throw_if_broken();
}

void HierarchicalGroup::abort(const std::string& reason) {
  break_levels(
      {GroupFailure::Kind::aborted, rank(), fmt::format("rank {} aborted {}: {}", rank(), text_, reason)});
}

HierarchicalGroup::Peer HierarchicalGroup::peer(int rank, const std::string& name) {
  const int n = inner_->size();
  if (rank / n == outer_->rank()) return {*inner_, rank % n};
  if (direct_) return {*direct_, rank};
  check(rank % n == inner_->rank(),
        "message \"{}\": rank {} cannot reach rank {}, expected one of its host or number", name,
        this->rank(), rank);
  return {*outer_, rank / n};
}

Work HierarchicalGroup::start_message(const Call& call, Buffers buffers, Start how) {
  const Peer other = peer(call.root, call.name);
  Call passed = call;
  passed.root = other.rank;
  return other.group.start(std::move(passed), std::move(buffers), how);
}

Traffic HierarchicalGroup::traffic() const {
  Traffic sum = inner_->traffic();
  sum += outer_->traffic();
  if (direct_) sum += direct_->traffic();
  return sum;
}

}  // namespace athanor::comm::hierarchical
