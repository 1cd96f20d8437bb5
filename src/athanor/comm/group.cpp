// The functions of every Group: each makes a Call of its arguments and checks it; the transport starts it.
#include "athanor/comm/group.h"

namespace athanor::comm {

NewWork::~NewWork() {
  try {
    std::move(*this).wait();
  } catch (const std::exception&) {  // a destructor cannot throw; a broken group throws at its next call
  }
}

Work NewWork::start(Start how) {
  Group* group = std::exchange(group_, nullptr);
  return group == nullptr ? Work() : group->start(std::move(call_), std::move(buffers_), how);
}

NewWork Group::checked(Call call, Buffers buffers) {
  check_call(call, buffers, rank(), size());
  return {*this, std::move(call), std::move(buffers)};
}

NewWork Group::all_reduce(void* data, int64_t count, Dtype dtype, const std::string& name) {
  return checked({Collective::all_reduce, dtype, -1, count, 0, name}, {.in = data, .out = data});
}

NewWork Group::all_reduce_tree(std::vector<TreeNode> nodes, int64_t num_leaves, float* result, int64_t count,
                               const std::string& name) {
  return checked({Collective::all_reduce_tree, Dtype::f32, -1, count, num_leaves, name},
                 {.out = result, .nodes = std::move(nodes)});
}

NewWork Group::all_gather(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name) {
  return checked({Collective::all_gather, dtype, -1, count, 0, name}, {.in = in, .out = out});
}

NewWork Group::reduce_scatter(const void* in, void* out, int64_t count, Dtype dtype,
                              const std::string& name) {
  return checked({Collective::reduce_scatter, dtype, -1, count, 0, name}, {.in = in, .out = out});
}

NewWork Group::all_to_all(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name) {
  return checked({Collective::all_to_all, dtype, -1, count, 0, name}, {.in = in, .out = out});
}

NewWork Group::all_to_all_v(const void* in, std::span<const int64_t> send_counts, void* out,
                            std::span<const int64_t> recv_counts, Dtype dtype, const std::string& name) {
  return checked({Collective::all_to_all_v, dtype, -1, 0, 0, name},
                 {.in = in,
                  .out = out,
                  .send_counts = {send_counts.begin(), send_counts.end()},
                  .recv_counts = {recv_counts.begin(), recv_counts.end()}});
}

NewWork Group::broadcast(void* data, int64_t count, Dtype dtype, int root, const std::string& name) {
  return checked({Collective::broadcast, dtype, root, count, 0, name}, {.in = data, .out = data});
}

NewWork Group::reduce(const void* in, void* out, int64_t count, Dtype dtype, int root,
                      const std::string& name) {
  return checked({Collective::reduce, dtype, root, count, 0, name}, {.in = in, .out = out});
}

NewWork Group::gather(const void* in, void* out, int64_t count, Dtype dtype, int root,
                      const std::string& name) {
  return checked({Collective::gather, dtype, root, count, 0, name}, {.in = in, .out = out});
}

NewWork Group::scatter(const void* in, void* out, int64_t count, Dtype dtype, int root,
                       const std::string& name) {
  return checked({Collective::scatter, dtype, root, count, 0, name}, {.in = in, .out = out});
}

NewWork Group::send(const void* data, int64_t count, Dtype dtype, int to, const std::string& name) {
  return checked({Collective::send, dtype, to, count, 0, name}, {.in = data});
}

NewWork Group::recv(void* data, int64_t count, Dtype dtype, int from, const std::string& name) {
  return checked({Collective::recv, dtype, from, count, 0, name}, {.out = data});
}

void Group::barrier(const std::string& name) {
  checked({Collective::barrier, Dtype::u8, -1, 0, 0, name}, {}).wait();
}

void Group::share(std::shared_ptr<std::byte> memory, size_t size_bytes, const std::string& name) {
  checked({Collective::share, Dtype::u8, -1, as_count(size_bytes), 0, name}, {.memory = std::move(memory)})
      .wait();
}

}  // namespace athanor::comm
