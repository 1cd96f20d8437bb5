#include "athanor/comm/shm/shm_group.h"

#include <utility>

#include "athanor/base/check.h"

namespace athanor::comm::shm {

SlotGroup::SlotGroup(Transport transport, int rank, GroupOptions options)
    : memory_(std::move(transport.memory)),
      link_(transport.arena, rank, std::move(options), std::move(transport.death_of),
            std::move(transport.membership)),
      regions_(rank, transport.arena.size(), std::move(transport.map_shared), transport.release_advice),
      mail_(link_, regions_, traffic_),
      queue_(link_.options(), [this](const std::exception& error) { return failure_of(error); }) {}

SlotGroup::~SlotGroup() {
  mail_.finish();
  queue_.finish();
  link_.arena().set_presence(link_.rank(), Presence::left);
}

Work SlotGroup::start(Call call, std::function<void(const Call&)> body, int64_t extra) {
  const int64_t bytes = direct_bytes(call, rank(), size(), extra);
  std::string name = call.name;
  return queue_.start(std::move(name), [this, bytes, call = std::move(call), body = std::move(body)] {
    body(call);
    traffic_.add(call.collective, bytes);
  });
}

// The failure that a body's exception becomes; it breaks the whole group.
GroupFailure SlotGroup::failure_of(const std::exception& error) {
  if (!link_.failure())
    link_.arena().fail(
        {GroupFailure::Kind::aborted, rank(),
         fmt::format("{}: {} failed: {}", link_.place(), link_.rank_text(rank()), error.what())});
  return *link_.failure();
}

Work SlotGroup::all_reduce(void* data, int64_t count, Dtype dtype, const std::string& name) {
  Call call{Collective::all_reduce, dtype, -1, count, 0, name};
  check_call(call, size(), data != nullptr);
  call.place = place_of(data, count, dtype);
  return start(call,
               [this, bytes = static_cast<std::byte*>(data)](const Call& c) { run_all_reduce(c, bytes); });
}

Work SlotGroup::all_reduce_tree(std::vector<TreeNode> nodes, int64_t num_leaves, float* result, int64_t count,
                                const std::string& name) {
  bool buffers = result != nullptr;
  for (const auto& node : nodes) buffers = buffers && node.data != nullptr;
  Call call{Collective::all_reduce_tree, Dtype::f32, -1, count, num_leaves, name};
  check_call(call, size(), buffers);
  call.place = place_of(result, count, Dtype::f32);
  const size_t most = link_.arena().slot_bytes() / 64 - 1;  // 64 bytes of each node must fit a slot
  check(nodes.size() <= most, "all_reduce_tree \"{}\": {} nodes on rank {}, expected at most {}", name,
        nodes.size(), rank(), most);
  const auto num_nodes = static_cast<int64_t>(nodes.size());
  return start(
      call,
      [this, nodes = std::move(nodes), result](const Call& c) { run_all_reduce_tree(c, nodes, result); },
      num_nodes);
}

Work SlotGroup::all_gather(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name) {
  Call call{Collective::all_gather, dtype, -1, count, 0, name};
  check_call(call, size(), in != nullptr && out != nullptr);
  call.place = place_of(in, count, dtype);
  return start(call, [this, from = static_cast<const std::byte*>(in),
                      to = static_cast<std::byte*>(out)](const Call& c) { run_all_gather(c, from, to); });
}

Work SlotGroup::reduce_scatter(const void* in, void* out, int64_t count, Dtype dtype,
                               const std::string& name) {
  Call call{Collective::reduce_scatter, dtype, -1, count, 0, name};
  check_call(call, size(), in != nullptr && out != nullptr);
  call.place = place_of(in, count * size(), dtype);
  return start(call, [this, from = static_cast<const std::byte*>(in),
                      to = static_cast<std::byte*>(out)](const Call& c) { run_reduce_scatter(c, from, to); });
}

Work SlotGroup::all_to_all(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name) {
  Call call{Collective::all_to_all, dtype, -1, count, 0, name};
  check_call(call, size(), in != nullptr && out != nullptr);
  call.place = place_of(in, count * size(), dtype);
  return start(call, [this, from = static_cast<const std::byte*>(in),
                      to = static_cast<std::byte*>(out)](const Call& c) { run_all_to_all(c, from, to); });
}

Work SlotGroup::broadcast(void* data, int64_t count, Dtype dtype, int root, const std::string& name) {
  Call call{Collective::broadcast, dtype, root, count, 0, name};
  check_call(call, size(), data != nullptr);
  call.place = place_of(data, count, dtype);
  return start(call,
               [this, bytes = static_cast<std::byte*>(data)](const Call& c) { run_broadcast(c, bytes); });
}

Work SlotGroup::reduce(const void* in, void* out, int64_t count, Dtype dtype, int root,
                       const std::string& name) {
  Call call{Collective::reduce, dtype, root, count, 0, name};
  check_call(call, size(), in != nullptr && (rank() != root || out != nullptr));
  call.place = place_of(in, count, dtype);
  return start(call, [this, from = static_cast<const std::byte*>(in),
                      to = static_cast<std::byte*>(out)](const Call& c) { run_reduce(c, from, to); });
}

Work SlotGroup::send(const void* data, int64_t count, Dtype dtype, int to, const std::string& name) {
  const Call call{Collective::send, dtype, to, count, 0, name};
  check_call(call, size(), data != nullptr);
  // The data of a send are only read.
  return mail_.start(call, const_cast<std::byte*>(static_cast<const std::byte*>(data)));
}

Work SlotGroup::recv(void* data, int64_t count, Dtype dtype, int from, const std::string& name) {
  const Call call{Collective::recv, dtype, from, count, 0, name};
  check_call(call, size(), data != nullptr);
  return mail_.start(call, static_cast<std::byte*>(data));
}

void SlotGroup::barrier(const std::string& name) {
  start({Collective::barrier, Dtype::u8, -1, 0, 0, name}, [this](const Call& call) { run(call, {}); }).wait();
}

// announce() detects ranks that ask for different sizes before anything is mapped. After the second event all ranks
// have mapped the region, so none is used that another rank could not map.
std::shared_ptr<std::byte> SlotGroup::allocate_shared(size_t size_bytes, const std::string& name) {
  const Call call{Collective::allocate_shared, Dtype::u8, -1, as_count(size_bytes), 0, name};
  check_call(call, size(), true);
  std::shared_ptr<std::byte> memory;
  start(call, [&](const Call& c) {
    link_.begin(c);
    link_.announce();
    memory = regions_.add(size_bytes);
    link_.await(link_.publish());
    link_.end();
  }).wait();
  return memory;
}

SharedPlace SlotGroup::place_of(const void* data, int64_t count, Dtype dtype) const {
  return regions_.place_of(data, static_cast<size_t>(count) * size_of(dtype));
}

void SlotGroup::abort(const std::string& reason) {
  link_.arena().fail({GroupFailure::Kind::aborted, rank(),
                      fmt::format("{} aborted group '{}': {}", link_.rank_text(rank()), name(), reason)});
}

}  // namespace athanor::comm::shm
