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

  // Addresses without memory, as on the null device.
  Work start(Call call, Buffers buffers, Start) override {
    traffic_.add(call.collective, direct_bytes(call, buffers, rank_, size_));
    if (call.collective == Collective::allocate_shared) {
      *buffers.memory = {std::shared_ptr<void>(), next_address_};
      next_address_ += call.count + 1;
    }
    return {};
  }
  Traffic traffic() const override { return traffic_.traffic(); }
  void throw_if_broken() override {}
  void abort(const std::string&) override {}

 private:
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
