#include "athanor/comm/nccl/nccl.h"

#include <numeric>
#include <utility>

#include "athanor/comm/nccl/nccl_group.h"

namespace athanor::comm::nccl {

namespace {

class NcclWorld final : public World {
 public:
  NcclWorld(World& host, const NcclDevice& device, const GroupOptions& options)
      : host_(host), device_(device), options_(options) {
    options_.generation = host.generation();
    std::vector<int> everybody(static_cast<size_t>(size()));
    std::iota(everybody.begin(), everybody.end(), 0);
    all_ = make_group(std::move(everybody), options_.name + " of devices");
  }

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  int generation() const override { return host_.generation(); }
  Group& all() override { return *all_; }
  std::shared_ptr<std::byte> allocate(size_t size_bytes) override { return host_.allocate(size_bytes); }
  std::unique_ptr<Group> make_group(std::vector<int> members, std::string name) override {
    GroupOptions options = options_;
    options.name = name;
    return std::make_unique<NcclGroup>(host_.make_group(std::move(members), std::move(name)), device_,
                                       options);
  }
  void abort(const std::string& reason) override { host_.abort(reason); }

 private:
  World& host_;
  NcclDevice device_;
  GroupOptions options_;
  std::unique_ptr<Group> all_;
};

}  // namespace

std::unique_ptr<World> make_nccl_world(World& host, const NcclDevice& device, const GroupOptions& options) {
  return std::make_unique<NcclWorld>(host, device, options);
}

}  // namespace athanor::comm::nccl
