// A group whose calls go by the memory of a device: what tests give it in the host's memory is copied there, and what
// comes of it back when it is waited for.
//
//   OnDevice face(*group, queue, arena);
//   EXPECT_EQ(try_every_call(face), "");
//
// Thread rule: calls and waits by the one thread that uses the queue.
#pragma once

#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "athanor/comm/group.h"
#include "athanor/kernels/cuda/queue.h"

namespace athanor::tests {

class OnDevice final : public Group {
 public:
  OnDevice(Group& real, CudaQueue& queue, Arena& arena) : real_(real), queue_(queue), arena_(arena) {}
  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  const std::string& name() const override { return real_.name(); }

  Work all_reduce(void* data, int64_t count, Dtype dtype, const std::string& name) override {
    const Buffer copy = put(data, count, dtype);
    return later(real_.all_reduce(copy.device(), count, dtype, name), {copy});
  }
  Work all_reduce_tree(std::vector<TreeNode> nodes, int64_t num_leaves, float* result, int64_t count,
                       const std::string& name) override {
    std::vector<Buffer> copies;
    Buffer to = room(result, count, Dtype::f32);
    for (TreeNode& node : nodes) {
      copies.push_back(put(node.data, count, Dtype::f32));
      if (node.data == result) to = copies.back();
      node.data = static_cast<float*>(copies.back().device());
      copies.back().host = nullptr;  // is only read
    }
    copies.push_back(to);
    auto* const sum = static_cast<float*>(to.device());
    return later(real_.all_reduce_tree(std::move(nodes), num_leaves, sum, count, name), std::move(copies));
  }
  Work all_gather(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name) override {
    const Buffer from = take(in, count, dtype), to = room(out, count * size(), dtype);
    return later(real_.all_gather(from.device(), to.device(), count, dtype, name), {from, to});
  }
  Work reduce_scatter(const void* in, void* out, int64_t count, Dtype dtype,
                      const std::string& name) override {
    const Buffer from = take(in, count * size(), dtype), to = room(out, count, dtype);
    return later(real_.reduce_scatter(from.device(), to.device(), count, dtype, name), {from, to});
  }
  Work all_to_all(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name) override {
    const Buffer from = take(in, count * size(), dtype), to = room(out, count * size(), dtype);
    return later(real_.all_to_all(from.device(), to.device(), count, dtype, name), {from, to});
  }
  Work all_to_all_v(const void* in, std::span<const int64_t> send_counts, void* out,
                    std::span<const int64_t> recv_counts, Dtype dtype, const std::string& name) override {
    const auto sum = [](std::span<const int64_t> counts) {
      return std::accumulate(counts.begin(), counts.end(), int64_t{0});
    };
    const Buffer from = take(in, sum(send_counts), dtype), to = room(out, sum(recv_counts), dtype);
    return later(real_.all_to_all_v(from.device(), send_counts, to.device(), recv_counts, dtype, name),
                 {from, to});
  }
  Work broadcast(void* data, int64_t count, Dtype dtype, int root, const std::string& name) override {
    const Buffer copy = put(data, count, dtype);
    return later(real_.broadcast(copy.device(), count, dtype, root, name), {copy});
  }
  Work reduce(const void* in, void* out, int64_t count, Dtype dtype, int root,
              const std::string& name) override {
    const Buffer from = take(in, count, dtype), to = room(out, count, dtype);
    return later(real_.reduce(from.device(), to.device(), count, dtype, root, name), {from, to});
  }
  Work gather(const void* in, void* out, int64_t count, Dtype dtype, int root,
              const std::string& name) override {
    const Buffer from = take(in, count, dtype), to = room(out, count * size(), dtype);
    return later(real_.gather(from.device(), to.device(), count, dtype, root, name), {from, to});
  }
  Work scatter(const void* in, void* out, int64_t count, Dtype dtype, int root,
               const std::string& name) override {
    const Buffer from = take(in, count * size(), dtype), to = room(out, count, dtype);
    return later(real_.scatter(from.device(), to.device(), count, dtype, root, name), {from, to});
  }
  Work send(const void* data, int64_t count, Dtype dtype, int to, const std::string& name) override {
    const Buffer copy = take(data, count, dtype);
    return later(real_.send(copy.device(), count, dtype, to, name), {copy});
  }
  Work recv(void* data, int64_t count, Dtype dtype, int from, const std::string& name) override {
    const Buffer copy = room(data, count, dtype);
    return later(real_.recv(copy.device(), count, dtype, from, name), {copy});
  }
  void barrier(const std::string& name) override { real_.barrier(name); }
  Traffic traffic() const override { return real_.traffic(); }
  // The host's copy of what the device has.
  std::shared_ptr<std::byte> allocate_shared(size_t size_bytes, const std::string& name) override {
    const auto memory = real_.allocate_shared(size_bytes, name);
    auto copy = std::make_shared<std::vector<std::byte>>(size_bytes);
    queue_.copy_out(copy->data(), memory.get(), size_bytes);
    return {copy, copy->data()};
  }
  void throw_if_broken() override { real_.throw_if_broken(); }
  void abort(const std::string& reason) override { real_.abort(reason); }

 private:
  struct Buffer {
    Tensor tensor;         // undefined: of nothing
    void* host = nullptr;  // where it goes when the call is done
    void* device() const { return tensor.defined() ? tensor.raw() : nullptr; }
  };
  Buffer room(void* host, int64_t count, Dtype dtype) {
    if (host == nullptr || count == 0) return {};
    return {empty(arena_, {count}, dtype, Category::communication), host};
  }
  Buffer take(const void* host, int64_t count, Dtype dtype) {
    if (host == nullptr || count == 0) return {};
    Tensor copy = empty(arena_, {count}, dtype, Category::communication);
    copy_from_host(copy, host, copy.size_bytes());
    return {copy, nullptr};
  }
  Buffer put(void* host, int64_t count, Dtype dtype) {
    Buffer copy = take(host, count, dtype);
    copy.host = host;
    return copy;
  }

  struct Later final : Work::Impl {
    Later(Work real, std::vector<Buffer> all) : work(std::move(real)), buffers(std::move(all)) {}
    void wait() override {
      work.wait();
      for (const Buffer& one : buffers)
        if (one.host != nullptr && one.tensor.defined())
          copy_to_host(one.host, one.tensor, one.tensor.size_bytes());
    }
    bool done() const override { return work.done(); }
    Work work;
    std::vector<Buffer> buffers;
  };
  static Work later(Work work, std::vector<Buffer> buffers) {
    return Work(std::make_shared<Later>(std::move(work), std::move(buffers)));
  }

  Group& real_;
  CudaQueue& queue_;
  Arena& arena_;
};

}  // namespace athanor::tests
