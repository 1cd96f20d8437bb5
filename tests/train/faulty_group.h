// A group that does one thing wrong, alike on every rank: how tests plant faults in a layout without touching it.
//
//   const auto faulty = [](Group& group) { return FaultyGroup(group, {.call = "gradients", .skipped = true}); };
//   {.lay_out = [](Training& training, Mesh& mesh) { training.share_sequences(*keep(mesh.group(Axis::cp))); }}
//
// The fault befalls the calls whose names begin with `call`: reductions that are `skipped` leave what is there, and
// `change` alters what arrives of a collective, or what a message takes along; `in_wait` is what happens while somebody
// waits for a collective. All else is the real group's. It outlives what is started on it. Thread rule: that of the
// group.
#pragma once

#include <algorithm>
#include <functional>
#include <list>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "athanor/comm/group.h"

namespace athanor::tests {

struct GroupFault {
  std::string call;
  bool skipped = false;
  std::function<void(std::span<std::byte> data, size_t element_bytes)> change = {};
  std::function<void(const std::string& name)> in_wait = {};
};

class FaultyGroup final : public Group {
 public:
  FaultyGroup(Group& real, GroupFault fault) : real_(real), fault_(std::move(fault)), rank_(real.rank()) {}
  void pretend(int rank) { rank_ = rank; }  // to be another rank, from now on

  int rank() const override { return rank_; }
  int size() const override { return real_.size(); }
  const std::string& name() const override { return real_.name(); }
  Work all_reduce(void* data, int64_t count, Dtype dtype, const std::string& name) override {
    if (is_skipped(name)) return {};
    return changed(real_.all_reduce(data, count, dtype, name), data, count, dtype, name);
  }
  Work all_reduce_tree(std::vector<TreeNode> nodes, int64_t num_leaves, float* result, int64_t count,
                       const std::string& name) override {
    if (is_skipped(name)) return {};
    return changed(real_.all_reduce_tree(std::move(nodes), num_leaves, result, count, name), result, count,
                   Dtype::f32, name);
  }
  Work all_gather(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name) override {
    return changed(real_.all_gather(in, out, count, dtype, name), out, count * size(), dtype, name);
  }
  Work reduce_scatter(const void* in, void* out, int64_t count, Dtype dtype,
                      const std::string& name) override {
    return changed(real_.reduce_scatter(in, out, count, dtype, name), out, count, dtype, name);
  }
  Work all_to_all(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name) override {
    return changed(real_.all_to_all(in, out, count, dtype, name), out, count * size(), dtype, name);
  }
  Work all_to_all_v(const void* in, std::span<const int64_t> send_counts, void* out,
                    std::span<const int64_t> recv_counts, Dtype dtype, const std::string& name) override {
    return changed(real_.all_to_all_v(in, send_counts, out, recv_counts, dtype, name), out,
                   std::accumulate(recv_counts.begin(), recv_counts.end(), int64_t{0}), dtype, name);
  }
  Work broadcast(void* data, int64_t count, Dtype dtype, int root, const std::string& name) override {
    return real_.broadcast(data, count, dtype, root, name);
  }
  Work reduce(const void* in, void* out, int64_t count, Dtype dtype, int root,
              const std::string& name) override {
    return real_.reduce(in, out, count, dtype, root, name);
  }
  Work gather(const void* in, void* out, int64_t count, Dtype dtype, int root,
              const std::string& name) override {
    return real_.gather(in, out, count, dtype, root, name);
  }
  Work scatter(const void* in, void* out, int64_t count, Dtype dtype, int root,
               const std::string& name) override {
    return real_.scatter(in, out, count, dtype, root, name);
  }
  void barrier(const std::string& name) override { real_.barrier(name); }
  Work send(const void* data, int64_t count, Dtype dtype, int to, const std::string& name) override {
    if (!is_meant(name) || !fault_.change) return real_.send(data, count, dtype, to, name);
    const auto* bytes = static_cast<const std::byte*>(data);
    sent_.emplace_back(bytes, bytes + static_cast<size_t>(count) * size_of(dtype));
    fault_.change(sent_.back(), size_of(dtype));
    return real_.send(sent_.back().data(), count, dtype, to, name);
  }
  Work recv(void* data, int64_t count, Dtype dtype, int from, const std::string& name) override {
    return real_.recv(data, count, dtype, from, name);
  }
  Traffic traffic() const override { return real_.traffic(); }
  std::shared_ptr<std::byte> allocate_shared(size_t size_bytes, const std::string& name) override {
    return real_.allocate_shared(size_bytes, name);
  }
  void throw_if_broken() override { real_.throw_if_broken(); }
  void abort(const std::string& reason) override { real_.abort(reason); }

 private:
  bool is_meant(const std::string& name) const { return name.starts_with(fault_.call); }
  bool is_skipped(const std::string& name) const { return fault_.skipped && is_meant(name); }
  Work changed(Work work, void* data, int64_t count, Dtype dtype, const std::string& name) {
    if (!is_meant(name)) return work;
    if (fault_.in_wait)
      return Work(std::make_shared<Waited>(std::move(work), [this, name] { fault_.in_wait(name); }));
    if (!fault_.change) return work;
    work.wait();
    fault_.change({static_cast<std::byte*>(data), static_cast<size_t>(count) * size_of(dtype)},
                  size_of(dtype));
    return {};
  }

  struct Waited : Work::Impl {
    Waited(Work real, std::function<void()> hook) : work(std::move(real)), in_wait(std::move(hook)) {}
    void wait() override {
      work.wait();
      in_wait();
    }
    bool done() const override { return work.done(); }
    Work work;
    std::function<void()> in_wait;
  };

  Group& real_;
  GroupFault fault_;
  int rank_;
  std::list<std::vector<std::byte>> sent_;  // messages are read until they are done
};

// Changes: as if the data began so many elements, or that part of it, later.
inline auto rotated_by(size_t elements) {
  return [elements](std::span<std::byte> data, size_t element_bytes) {
    const size_t by = data.empty() ? 0 : elements * element_bytes % data.size();
    std::rotate(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(by), data.end());
  };
}
inline void halves_swapped(std::span<std::byte> data, size_t) {
  std::rotate(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(data.size() / 2), data.end());
}
inline void zeroed(std::span<std::byte> data, size_t) {
  std::fill(data.begin(), data.end(), std::byte{0});
}

}  // namespace athanor::tests
