#include "athanor/comm/network/network_group.h"

#include <utility>

#include "athanor/base/check.h"
#include "athanor/comm/shm/shared_regions.h"

namespace athanor::comm::network {

WireGroup::WireGroup(std::shared_ptr<Wire> wire, std::vector<int> members, const WireGroupIds& ids,
                     GroupOptions options, std::shared_ptr<void> alive)
    : alive_(std::move(alive)),
      link_(std::move(wire), std::move(members), ids, std::move(options)),
      data_channel_(link_.channel("data")),
      sent_to_(static_cast<size_t>(link_.size())),
      received_from_(static_cast<size_t>(link_.size())),
      queue_(link_.options(), [this](const std::exception& error) { return link_.failure_of(error); }) {
  check(link_.size() >= 2, "group '{}': {} ranks, expected at least 2", name(), link_.size());
}

// The queue runs everything that was started; only then the other ranks are told that this rank leaves.
WireGroup::~WireGroup() {
  queue_.finish();
  link_.leave();
}

Work WireGroup::start(const Call& call, bool buffers, std::function<void()> body, int64_t extra) {
  check_call(call, size(), buffers);
  return queue_.start(call.name, [this, call, body = std::move(body), extra] {
    link_.begin(call, extra);
    body();
    link_.end();
  });
}

Work WireGroup::all_reduce(void* data, int64_t count, Dtype dtype, const std::string& name) {
  return start({Collective::all_reduce, dtype, -1, count, 0, name}, data != nullptr,
               [=, this] { run_all_reduce(data, count, dtype); });
}

Work WireGroup::all_reduce_tree(std::vector<TreeNode> nodes, int64_t num_leaves, float* result, int64_t count,
                                const std::string& name) {
  bool buffers = result != nullptr;
  for (const auto& node : nodes) buffers = buffers && node.data != nullptr;
  const auto num_nodes = static_cast<int64_t>(nodes.size());
  return start(
      {Collective::all_reduce_tree, Dtype::f32, -1, count, num_leaves, name}, buffers,
      [this, nodes = std::move(nodes), num_leaves, result, count] {
        run_all_reduce_tree(nodes, num_leaves, result, count);
        gather_slices(result, count, Dtype::f32);
      },
      num_nodes);
}

Work WireGroup::all_gather(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name) {
  return start({Collective::all_gather, dtype, -1, count, 0, name}, in != nullptr && out != nullptr,
               [=, this] { run_all_gather(in, out, count, dtype); });
}

Work WireGroup::reduce_scatter(const void* in, void* out, int64_t count, Dtype dtype,
                               const std::string& name) {
  return start({Collective::reduce_scatter, dtype, -1, count, 0, name}, in != nullptr && out != nullptr,
               [=, this] { run_reduce_scatter(in, out, count, dtype); });
}

Work WireGroup::all_to_all(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name) {
  return start({Collective::all_to_all, dtype, -1, count, 0, name}, in != nullptr && out != nullptr,
               [=, this] { run_all_to_all(in, out, count, dtype); });
}

Work WireGroup::all_to_all_v(const void* in, std::span<const int64_t> send_counts, void* out,
                             std::span<const int64_t> recv_counts, Dtype dtype, const std::string& name) {
  const Call call{Collective::all_to_all_v, dtype, -1, 0, 0, name};
  check_counts(call, send_counts, size(), in != nullptr);
  check_counts(call, recv_counts, size(), out != nullptr);
  return start(call, true,
               [this, in, out, dtype, to = std::vector(send_counts.begin(), send_counts.end()),
                from = std::vector(recv_counts.begin(), recv_counts.end())] {
                 check_counts_of_all(to, from);
                 run_all_to_all_v(in, to, out, from, dtype);
               });
}

Work WireGroup::broadcast(void* data, int64_t count, Dtype dtype, int root, const std::string& name) {
  return start({Collective::broadcast, dtype, root, count, 0, name}, data != nullptr,
               [=, this] { run_broadcast(data, count, dtype, root); });
}

Work WireGroup::reduce(const void* in, void* out, int64_t count, Dtype dtype, int root,
                       const std::string& name) {
  return start({Collective::reduce, dtype, root, count, 0, name},
               in != nullptr && (rank() != root || out != nullptr),
               [=, this] { run_reduce(in, out, count, dtype, root); });
}

Work WireGroup::gather(const void* in, void* out, int64_t count, Dtype dtype, int root,
                       const std::string& name) {
  return start({Collective::gather, dtype, root, count, 0, name},
               in != nullptr && (rank() != root || out != nullptr),
               [=, this] { run_gather(in, out, count, dtype, root); });
}

Work WireGroup::scatter(const void* in, void* out, int64_t count, Dtype dtype, int root,
                        const std::string& name) {
  return start({Collective::scatter, dtype, root, count, 0, name},
               out != nullptr && (rank() != root || in != nullptr),
               [=, this] { run_scatter(in, out, count, dtype, root); });
}

void WireGroup::barrier(const std::string& name) {
  start({Collective::barrier, Dtype::u8, -1, 0, 0, name}, true, [] {}).wait();
}

std::shared_ptr<std::byte> WireGroup::allocate_shared(size_t size_bytes, const std::string& name) {
  std::shared_ptr<std::byte> memory;
  start({Collective::allocate_shared, Dtype::u8, -1, as_count(size_bytes), 0, name}, true, [&] {
    memory = map_shared_memory(size_bytes);
  }).wait();
  return memory;
}

Traffic WireGroup::traffic() const {
  return link_.traffic().traffic();
}

void WireGroup::abort(const std::string& reason) {
  link_.abort(reason);
}

}  // namespace athanor::comm::network
