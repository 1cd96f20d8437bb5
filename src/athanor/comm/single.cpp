// A group of one: every collective is the identity.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>

#include "athanor/base/check.h"
#include "athanor/comm/call.h"
#include "athanor/comm/group.h"
#include "athanor/comm/ordered_sum.h"
#include "athanor/comm/shared_regions.h"
#include "athanor/comm/tree.h"

namespace athanor {

namespace {

class SingleGroup final : public Group {
 public:
  explicit SingleGroup(std::string name) : name_(std::move(name)) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const std::string& name() const override { return name_; }

  Work all_reduce(void* data, int64_t count, Dtype dtype, const std::string& name) override {
    enter({Collective::all_reduce, dtype, -1, count, 0, name}, data != nullptr);
    return {};
  }

  Work all_reduce_tree(std::vector<TreeNode> nodes, int64_t num_leaves, float* result, int64_t count,
                       const std::string& name) override {
    bool buffers = result != nullptr;
    for (const auto& node : nodes) buffers = buffers && node.data != nullptr;
    enter({Collective::all_reduce_tree, Dtype::f32, -1, count, num_leaves, name}, buffers);
    std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<LeafRange> ranges;
    ranges.reserve(nodes.size());
    for (const auto& node : nodes) ranges.emplace_back(node.first, node.last);
    const auto plan = plan_tree_sum(ranges, num_leaves);
    // Summed in blocks beside the nodes, which belong to the caller.
    constexpr int64_t kBlock = 1024;
    std::vector<float> parts(nodes.size() * kBlock);
    const auto part = [&](size_t i) { return parts.data() + i * kBlock; };
    for (int64_t at = 0; at < count; at += kBlock) {
      const int64_t length = std::min(kBlock, count - at);
      for (size_t i = 0; i < nodes.size(); ++i) std::copy_n(nodes[i].data + at, length, part(i));
      for (const auto& add : plan)
        athanor::add(part(static_cast<size_t>(add.into)), part(static_cast<size_t>(add.into)),
                     part(static_cast<size_t>(add.from)), length);
      std::copy_n(part(0), length, result + at);
    }
    return {};
  }

  Work all_gather(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name) override {
    enter({Collective::all_gather, dtype, -1, count, 0, name}, in != nullptr && out != nullptr);
    if (count > 0) std::memmove(out, in, static_cast<size_t>(count) * size_of(dtype));
    return {};
  }

  Work reduce_scatter(const void* in, void* out, int64_t count, Dtype dtype,
                      const std::string& name) override {
    enter({Collective::reduce_scatter, dtype, -1, count, 0, name}, in != nullptr && out != nullptr);
    if (count > 0) std::memmove(out, in, static_cast<size_t>(count) * size_of(dtype));
    return {};
  }

  Work all_to_all(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name) override {
    enter({Collective::all_to_all, dtype, -1, count, 0, name}, in != nullptr && out != nullptr);
    if (count > 0) std::memmove(out, in, static_cast<size_t>(count) * size_of(dtype));
    return {};
  }

  Work broadcast(void* data, int64_t count, Dtype dtype, int root, const std::string& name) override {
    enter({Collective::broadcast, dtype, root, count, 0, name}, data != nullptr);
    return {};
  }

  void barrier(const std::string& name) override {
    enter({Collective::barrier, Dtype::u8, -1, 0, 0, name}, true);
  }

  std::shared_ptr<std::byte> allocate_shared(size_t size_bytes, const std::string& name) override {
    enter({Collective::allocate_shared, Dtype::u8, -1, as_count(size_bytes), 0, name}, true);
    return map_shared_memory(size_bytes);
  }

  void abort(const std::string& reason) override {
    const std::lock_guard lock(mutex_);
    if (!aborted_) aborted_ = fmt::format("rank 0 aborted group '{}': {}", name_, reason);
  }

 private:
  void enter(const Call& call, bool buffers) {
    check_call(call, 1, buffers);
    const std::lock_guard lock(mutex_);
    if (aborted_) throw Recoverable(*aborted_);
  }

  std::string name_;
  std::mutex mutex_;
  std::optional<std::string> aborted_;
};

}  // namespace

std::unique_ptr<Group> make_single_group(std::string name) {
  return std::make_unique<SingleGroup>(std::move(name));
}

}  // namespace athanor
