// What a new axis takes: a rule that says which layouts with it are legal, a name in the mesh, and a strategy that uses
// its group. Everything else stays as it is. The axis of this test is `stripe`: ranks with equal micro-batches, each of
// which sums its stripe of a bucket over the data-parallel ranks; then they tell each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "athanor/comm/shm/thread.h"
#include "athanor/layout/check.h"
#include "athanor/parallel/data/replicated_gradients.h"
#include "support/engine.h"

namespace athanor::tests::toy_axis_test {
namespace {

using ::testing::HasSubstr;

// Its one file of layout/: the rule.
constexpr std::string_view kStripe = "stripe";
int stripes_of(const Request& request) {
  return request.training_ranks / request.layout.training_ranks();
}
void check_stripes(const Config&, const Request& request) {
  const int ranks = request.layout.training_ranks();
  if (request.training_ranks % ranks == 0) return;
  throw ConfigError(fmt::format("stripe: got {} ranks for layouts of {}, expected a multiple",
                                request.training_ranks, ranks),
                    fmt::format("the nearest is {}", request.training_ranks / ranks * ranks));
}

// Its strategy.
class StripeSum final : public BucketSum {
 public:
  StripeSum(const Buckets& buckets, Group& data, Group& stripes)
      : buckets_(buckets), data_(data), stripes_(stripes) {}
  void begin_step() override {}
  void start(size_t bucket, const std::vector<PartialSum>& parts, int64_t /*num_leaves*/) override {
    const int64_t count = buckets_.list[bucket].layout.total() / stripes_.size();
    float* whole = parts.front().values.data<float>();
    float* own = whole + stripes_.rank() * count;
    data_.all_reduce(own, count, Dtype::f32, "stripe").wait();
    stripes_.all_gather(own, whole, count, Dtype::f32, "stripes").wait();
  }
  void finish() override {}

 private:
  const Buckets& buckets_;
  Group &data_, &stripes_;
};

// The gradients of two data-parallel ranks, element i of micro-batch m being (m + 1) i.
std::vector<float> gradients_of(World& world, int stripes) {
  const Layout layout = {.replicate = 2};
  Engine engine;
  Param param("weight", {32, 24}, Init::zeros());
  Weight& weight = param.add_use("weight");
  const Buckets buckets({&weight}, {.rows = 1, .bucket_bytes = 1 << 20});
  Mesh mesh(MeshShape({{axis::replicate, layout.replicate}, {kStripe, stripes}}), world);
  Group& data = mesh.group({axis::replicate});
  WaitClock clock(nullptr);
  StripeSum sum(buckets, data, mesh.group({kStripe}));
  ReplicatedGradients gradients(buckets, data, engine.arena, Reduce::fast, 1, clock, sum);
  gradients.begin_step({.num_micro_batches = 2});
  for (const int64_t micro_batch : gradients.micro_batches_of_step(2)) {
    float* slot = weight.grad().data<float>();
    for (int64_t i = 0; i < param.numel(); ++i) slot[i] = static_cast<float>((micro_batch + 1) * i);
    weight.grad_ready(0);
  }
  gradients.finish();
  return to_floats(gradients.piece(weight));
}

TEST(ToyAxis, IsARuleANameAndAStrategy) {
  std::vector<float> expected(32 * 24);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = 3.0f * static_cast<float>(i);
  for (const int stripes : {1, 2, 4})
    run_ranks(make_thread_worlds(2 * stripes), [&](World& world) {
      EXPECT_EQ(gradients_of(world, stripes), expected) << stripes << " stripes, rank " << world.rank();
    });
}

TEST(ToyAxis, IsRefusedWithTheNearest) {
  const Request fits{.layout = {.replicate = 2}, .world_size = 6, .training_ranks = 6};
  EXPECT_EQ(stripes_of(fits), 3);
  check_stripes({}, fits);
  try {
    check_stripes({}, {.layout = {.replicate = 2}, .world_size = 7, .training_ranks = 7});
    ADD_FAILURE() << "seven ranks for layouts of two";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("stripe: got 7 ranks for layouts of 2"));
    EXPECT_EQ(error.hint(), "the nearest is 6");
  }
}

}  // namespace
}  // namespace athanor::tests::toy_axis_test
