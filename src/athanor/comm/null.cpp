#include "athanor/comm/null.h"

#include "athanor/base/check.h"

namespace athanor::comm {

namespace {

class NullGroup final : public Group {
 public:
  NullGroup(int rank, int size, std::string name, std::byte* first_address)
      : rank_(rank), size_(size), name_(std::move(name)), next_address_(first_address) {
    check(size >= 1 && 0 <= rank && rank < size, "null group '{}': rank {} of {}", name_, rank, size);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const std::string& name() const override { return name_; }

  Work all_reduce(void* data, int64_t count, Dtype dtype, const std::string& name) override {
    return count_call({Collective::all_reduce, dtype, -1, count, 0, name}, data != nullptr);
  }
  Work all_reduce_tree(std::vector<TreeNode> nodes, int64_t num_leaves, float* result, int64_t count,
                       const std::string& name) override {
    return count_call({Collective::all_reduce_tree, Dtype::f32, -1, count, num_leaves, name},
                      result != nullptr, static_cast<int64_t>(nodes.size()));
  }
  Work all_gather(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name) override {
    return count_call({Collective::all_gather, dtype, -1, count, 0, name}, in != nullptr && out != nullptr);
  }
  Work reduce_scatter(const void* in, void* out, int64_t count, Dtype dtype,
                      const std::string& name) override {
    return count_call({Collective::reduce_scatter, dtype, -1, count, 0, name},
                      in != nullptr && out != nullptr);
  }
  Work all_to_all(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name) override {
    return count_call({Collective::all_to_all, dtype, -1, count, 0, name}, in != nullptr && out != nullptr);
  }
  Work all_to_all_v(const void* in, std::span<const int64_t> send_counts, void* out,
                    std::span<const int64_t> recv_counts, Dtype dtype, const std::string& name) override {
    const Call call{Collective::all_to_all_v, dtype, -1, 0, 0, name};
    const int64_t sent = check_counts(call, send_counts, size_, in != nullptr);
    check_counts(call, recv_counts, size_, out != nullptr);
    return count_call(call, true, sent - send_counts[static_cast<size_t>(rank_)]);
  }
  Work broadcast(void* data, int64_t count, Dtype dtype, int root, const std::string& name) override {
    return count_call({Collective::broadcast, dtype, root, count, 0, name}, data != nullptr);
  }
  Work reduce(const void* in, void* out, int64_t count, Dtype dtype, int root,
              const std::string& name) override {
    return count_call({Collective::reduce, dtype, root, count, 0, name},
                      in != nullptr && (rank_ != root || out != nullptr));
  }
  Work gather(const void* in, void* out, int64_t count, Dtype dtype, int root,
              const std::string& name) override {
    return count_call({Collective::gather, dtype, root, count, 0, name},
                      in != nullptr && (rank_ != root || out != nullptr));
  }
  Work scatter(const void* in, void* out, int64_t count, Dtype dtype, int root,
               const std::string& name) override {
    return count_call({Collective::scatter, dtype, root, count, 0, name},
                      out != nullptr && (rank_ != root || in != nullptr));
  }
  void barrier(const std::string& name) override {
    count_call({Collective::barrier, Dtype::u8, -1, 0, 0, name}, true);
  }
  Work send(const void* data, int64_t count, Dtype dtype, int to, const std::string& name) override {
    return count_call({Collective::send, dtype, to, count, 0, name}, data != nullptr);
  }
  Work recv(void* data, int64_t count, Dtype dtype, int from, const std::string& name) override {
    return count_call({Collective::recv, dtype, from, count, 0, name}, data != nullptr);
  }
  Traffic traffic() const override { return traffic_.traffic(); }

  // Addresses without memory, as on the null device.
  std::shared_ptr<std::byte> allocate_shared(size_t size_bytes, const std::string& name) override {
    count_call({Collective::allocate_shared, Dtype::u8, -1, as_count(size_bytes), 0, name}, true);
    std::byte* address = next_address_;
    next_address_ += size_bytes + 1;
    return {std::shared_ptr<void>(), address};
  }
  void throw_if_broken() override {}
  void abort(const std::string&) override {}

 private:
  Work count_call(const Call& call, bool buffers, int64_t extra = 0) {
    check_call(call, size_, buffers);
    traffic_.add(call.collective, direct_bytes(call, rank_, size_, extra));
    return {};
  }

  int rank_, size_;
  std::string name_;
  TrafficCounter traffic_;
  std::byte* next_address_;
};

// Each group of a world has an address range of its own, of a terabyte.
std::byte* addresses_of(uint64_t number) {
  return reinterpret_cast<std::byte*>((uint64_t{1} << 45) + (number << 40));
}

class NullWorld final : public World {
 public:
  NullWorld(int rank, int size) : all_(rank, size, "null", addresses_of(0)) {}
  int rank() const override { return all_.rank(); }
  int size() const override { return all_.size(); }
  Group& all() override { return all_; }
  std::unique_ptr<Group> make_group(std::vector<int> members, std::string name) override {
    const int own = check_members(*this, members, name);
    return std::make_unique<NullGroup>(own, static_cast<int>(members.size()), std::move(name),
                                       addresses_of(++num_groups_));
  }
  void abort(const std::string&) override {}

 private:
  NullGroup all_;
  uint64_t num_groups_ = 0;
};

}  // namespace

std::unique_ptr<Group> make_null_group(int rank, int size, std::string name) {
  return std::make_unique<NullGroup>(rank, size, std::move(name), addresses_of(0));
}

std::unique_ptr<World> make_null_world(int rank, int size) {
  return std::make_unique<NullWorld>(rank, size);
}

}  // namespace athanor::comm
