#include "athanor/comm/hierarchical/hierarchical.h"

#include <utility>

#include "athanor/base/check.h"

namespace athanor::comm::hierarchical {

namespace {

const std::byte* bytes(const void* data) {
  return static_cast<const std::byte*>(data);
}
std::byte* bytes(void* data) {
  return static_cast<std::byte*>(data);
}

}  // namespace

HierarchicalGroup::HierarchicalGroup(std::unique_ptr<Group> inner, std::unique_ptr<Group> outer,
                                     std::unique_ptr<Group> direct, const GroupOptions& options)
    : inner_(std::move(inner)),
      outer_(std::move(outer)),
      direct_(std::move(direct)),
      name_(options.name),
      queue_(options, [this](const std::exception& error) { return failure_of(error); }) {
  if (direct_)
    check(direct_->size() == size() && direct_->rank() == rank(),
          "group '{}': rank {} of {} is rank {} of {} of the group for messages", name_, rank(), size(),
          direct_->rank(), direct_->size());
}

HierarchicalGroup::~HierarchicalGroup() {
  queue_.finish();
}

Work HierarchicalGroup::start(const Call& call, bool buffers, std::function<void()> body) {
  check_call(call, size(), buffers);
  return queue_.start(call.name, [this, body = std::move(body)] {
    {
      const std::lock_guard lock(mutex_);
      if (failure_) failure_->raise();
    }
    body();
  });
}

void HierarchicalGroup::inside(const std::function<Work(Group& inner)>& step) {
  try {
    step(*inner_).wait();
  } catch (const PeerLost& error) {
    const int rank = outer_->rank() * inner_->size() + error.rank();
    throw PeerLost(rank, fmt::format("rank {} was lost, inside its host: {}", rank, error.what()));
  }
}

void HierarchicalGroup::across(const std::function<Work(Group& outer)>& step) {
  try {
    step(*outer_).wait();
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
  const auto look = [](Group& group) {
    group.throw_if_broken();
    return Work();
  };
  inside(look);
  across(look);
  if (direct_) direct_->throw_if_broken();
}

void HierarchicalGroup::abort(const std::string& reason) {
  break_levels({GroupFailure::Kind::aborted, rank(),
                fmt::format("rank {} aborted group '{}': {}", rank(), name_, reason)});
}

Work HierarchicalGroup::all_reduce(void* data, int64_t count, Dtype dtype, const std::string& name) {
  return start({Collective::all_reduce, dtype, -1, count, 0, name}, data != nullptr,
               [=, this] { run_all_reduce(bytes(data), count, dtype, name); });
}

Work HierarchicalGroup::all_reduce_tree(std::vector<TreeNode> nodes, int64_t num_leaves, float* result,
                                        int64_t count, const std::string& name) {
  bool buffers = result != nullptr;
  for (const auto& node : nodes) buffers = buffers && node.data != nullptr;
  return start(
      {Collective::all_reduce_tree, Dtype::f32, -1, count, num_leaves, name}, buffers,
      [=, this, nodes = std::move(nodes)] { run_all_reduce_tree(nodes, num_leaves, result, count, name); });
}

Work HierarchicalGroup::all_gather(const void* in, void* out, int64_t count, Dtype dtype,
                                   const std::string& name) {
  return start({Collective::all_gather, dtype, -1, count, 0, name}, in != nullptr && out != nullptr,
               [=, this] { run_all_gather(bytes(in), bytes(out), count, dtype, name); });
}

Work HierarchicalGroup::reduce_scatter(const void* in, void* out, int64_t count, Dtype dtype,
                                       const std::string& name) {
  return start({Collective::reduce_scatter, dtype, -1, count, 0, name}, in != nullptr && out != nullptr,
               [=, this] { run_reduce_scatter(bytes(in), bytes(out), count, dtype, name); });
}

Work HierarchicalGroup::all_to_all(const void* in, void* out, int64_t count, Dtype dtype,
                                   const std::string& name) {
  return start({Collective::all_to_all, dtype, -1, count, 0, name}, in != nullptr && out != nullptr,
               [=, this] { run_all_to_all(bytes(in), bytes(out), count, dtype, name); });
}

Work HierarchicalGroup::all_to_all_v(const void* in, std::span<const int64_t> send_counts, void* out,
                                     std::span<const int64_t> recv_counts, Dtype dtype,
                                     const std::string& name) {
  const Call call{Collective::all_to_all_v, dtype, -1, 0, 0, name};
  check_counts(call, send_counts, size(), in != nullptr);
  check_counts(call, recv_counts, size(), out != nullptr);
  return start(call, true,
               [this, in, out, dtype, name, to = std::vector(send_counts.begin(), send_counts.end()),
                from = std::vector(recv_counts.begin(), recv_counts.end())] {
                 run_all_to_all_v(bytes(in), to, bytes(out), from, dtype, name);
               });
}

Work HierarchicalGroup::broadcast(void* data, int64_t count, Dtype dtype, int root, const std::string& name) {
  const Call call{Collective::broadcast, dtype, root, count, 0, name};
  return start(call, data != nullptr, [=, this] { run_rooted(call, nullptr, bytes(data)); });
}

Work HierarchicalGroup::reduce(const void* in, void* out, int64_t count, Dtype dtype, int root,
                               const std::string& name) {
  const Call call{Collective::reduce, dtype, root, count, 0, name};
  return start(call, in != nullptr && (rank() != root || out != nullptr),
               [=, this] { run_rooted(call, bytes(in), bytes(out)); });
}

Work HierarchicalGroup::gather(const void* in, void* out, int64_t count, Dtype dtype, int root,
                               const std::string& name) {
  const Call call{Collective::gather, dtype, root, count, 0, name};
  return start(call, in != nullptr && (rank() != root || out != nullptr),
               [=, this] { run_rooted(call, bytes(in), bytes(out)); });
}

Work HierarchicalGroup::scatter(const void* in, void* out, int64_t count, Dtype dtype, int root,
                                const std::string& name) {
  const Call call{Collective::scatter, dtype, root, count, 0, name};
  return start(call, out != nullptr && (rank() != root || in != nullptr),
               [=, this] { run_rooted(call, bytes(in), bytes(out)); });
}

HierarchicalGroup::Peer HierarchicalGroup::peer(int rank, const std::string& name) {
  check(0 <= rank && rank < size(), "message \"{}\": rank {}, expected a rank of 0 ... {}", name, rank,
        size() - 1);
  const int n = inner_->size();
  if (rank / n == outer_->rank()) return {*inner_, rank % n};
  if (direct_) return {*direct_, rank};
  check(rank % n == inner_->rank(),
        "message \"{}\": rank {} cannot reach rank {}, expected one of its host or number", name,
        this->rank(), rank);
  return {*outer_, rank / n};
}

Work HierarchicalGroup::send(const void* data, int64_t count, Dtype dtype, int to, const std::string& name) {
  const Peer other = peer(to, name);
  return other.group.send(data, count, dtype, other.rank, name);
}

Work HierarchicalGroup::recv(void* data, int64_t count, Dtype dtype, int from, const std::string& name) {
  const Peer other = peer(from, name);
  return other.group.recv(data, count, dtype, other.rank, name);
}

// After the inner barrier all ranks of a host have arrived, so the outer barrier waits for all ranks of all hosts.
void HierarchicalGroup::barrier(const std::string& name) {
  const auto wait_in = [&](Group& group) {
    group.barrier(name);
    return Work();
  };
  start({Collective::barrier, Dtype::u8, -1, 0, 0, name}, true, [&] {
    inside(wait_in);
    across(wait_in);
  }).wait();
}

std::shared_ptr<std::byte> HierarchicalGroup::allocate_shared(size_t size_bytes, const std::string& name) {
  std::shared_ptr<std::byte> memory;
  start({Collective::allocate_shared, Dtype::u8, -1, as_count(size_bytes), 0, name}, true, [&] {
    inside([&](Group& group) {
      memory = group.allocate_shared(size_bytes, name);
      return Work();
    });
    across([&](Group& group) {
      group.barrier(name);
      return Work();
    });
  }).wait();
  return memory;
}

Traffic HierarchicalGroup::traffic() const {
  Traffic sum = inner_->traffic();
  sum += outer_->traffic();
  if (direct_) sum += direct_->traffic();
  return sum;
}

}  // namespace athanor::comm::hierarchical
