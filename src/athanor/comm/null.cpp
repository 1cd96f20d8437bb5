#include "athanor/comm/null.h"

#include "athanor/base/check.h"
#include "athanor/base/shared_memory.h"

namespace athanor::comm {

namespace {

class NullGroup final : public Group {
 public:
  NullGroup(int rank, int size, std::string name) : rank_(rank), size_(size), name_(std::move(name)) {
    check(size >= 1 && 0 <= rank && rank < size, "null group '{}': rank {} of {}", name_, rank, size);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const std::string& name() const override { return name_; }

  Work start(Call call, Buffers buffers, Start) override {
    traffic_.add(call.collective, direct_bytes(call, buffers, rank_, size_));
    return {};
  }
  Traffic traffic() const override { return traffic_.traffic(); }
  void throw_if_broken() override {}
  void abort(const std::string&) override {}

 private:
  int rank_, size_;
  std::string name_;
  TrafficCounter traffic_;
};

class NullWorld final : public World {
 public:
  NullWorld(int rank, int size) : all_(rank, size, "null") {}
  int rank() const override { return all_.rank(); }
  int size() const override { return all_.size(); }
  Group& all() override { return all_; }
  std::shared_ptr<std::byte> allocate(size_t size_bytes) override { return map_shared_memory(size_bytes); }
  std::unique_ptr<Group> make_group(std::vector<int> members, std::string name) override {
    const int own = check_members(*this, members, name);
    return std::make_unique<NullGroup>(own, static_cast<int>(members.size()), std::move(name));
  }
  void abort(const std::string&) override {}

 private:
  NullGroup all_;
};

}  // namespace

std::unique_ptr<World> make_null_world(int rank, int size) {
  return std::make_unique<NullWorld>(rank, size);
}

}  // namespace athanor::comm
