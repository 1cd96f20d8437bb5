// A failure at any call between ranks leaves all of a step or none of it, on every rank: the next segment goes on from
// there, in the same process, and the whole has the bits of a training that was never disturbed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "athanor/base/error.h"
#include "support/tiers.h"
#include "train/layout_run.h"
#include "train/layouts/layout_case.h"

namespace athanor::tests::all_or_nothing_test {
namespace {

constexpr int64_t kSteps = 4;

// Counts the calls of one rank, and fails at one of them.
struct Plan {
  explicit Plan(int of_rank, int64_t call = -1) : rank(of_rank), fail_at(call) {}
  const int rank;
  const int64_t fail_at;  // the number of the call; -1: none
  std::atomic<int64_t> calls = 0;
  std::mutex mutex;
  std::vector<int64_t> calls_after_step;  // of that rank, after each step
  std::string failed_call;

  void count(const Call& call) {
    if (calls.fetch_add(1) != fail_at) return;
    failed_call = call.name;
    throw PeerLost(rank, "planted: the rank is lost at '" + call.name + "'");
  }
};

class CountedGroup final : public Group {
 public:
  CountedGroup(Group& real, Plan& plan) : real_(real), plan_(plan) {}
  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  const std::string& name() const override { return real_.name(); }
  Work start(Call call, Buffers buffers, Start how) override {
    plan_.count(call);
    return real_.start(std::move(call), std::move(buffers), how);
  }
  Traffic traffic() const override { return real_.traffic(); }
  void throw_if_broken() override { real_.throw_if_broken(); }
  void abort(const std::string& reason) override { real_.abort(reason); }

 private:
  Group& real_;
  Plan& plan_;
};

VerifyRun run(const Config& config, Plan& plan, bool breaks) {
  std::mutex mutex;
  std::vector<std::unique_ptr<Group>> counted;
  LayoutHooks hooks;
  hooks.groups = [&](Groups& groups) {
    if (groups.world().rank() != plan.rank) return;
    const std::lock_guard lock(mutex);
    std::map<Group*, Group*> in_front;
    const auto put = [&](Group*& group) {
      if (group == nullptr || group->size() == 1) return;
      Group*& front = in_front[group];
      if (front == nullptr) {
        counted.push_back(std::make_unique<CountedGroup>(*group, plan));
        front = counted.back().get();
      }
      group = front;
    };
    for (Group** group :
         {&groups.all, &groups.role, &groups.exchange, &groups.tensor, &groups.context, &groups.pipeline,
          &groups.pipeline_ends, &groups.data, &groups.losses, &groups.balance, &groups.experts})
      put(*group);
    for (ParameterGroups* of : {&groups.dense, &groups.expert})
      for (Group** group : {&of->sum, &of->shard, &of->replicate, &of->average}) put(*group);
  };
  hooks.after_step = [&](Training&, TrainState&, World& world) {
    if (world.rank() == plan.rank) plan.calls_after_step.push_back(plan.calls.load());
  };
  const int ranks = ranks_of(config);
  std::vector<VerifySegment> segments;
  if (breaks)
    segments.push_back({.config = config, .ranks = ranks, .last_step = kSteps - 1, .may_break = true});
  segments.push_back({.config = config, .ranks = ranks, .last_step = kSteps});
  return verify::run_layouts(
      std::move(segments), 2,
      [&](int64_t step, int64_t micro_batch, Batch& batch) { batch = make_batch(config, step, micro_batch); },
      hooks);
}

struct Case {
  std::string family, optimizer;
  Axes axes;
};

void PrintTo(const Case& row, std::ostream* out) {
  *out << row.family << " " << row.optimizer << " " << text_of(row.axes);
}

class AllOrNothing : public testing::TestWithParam<Case> {};

TEST_P(AllOrNothing, AFailureAtEachCallOfAStepLeavesAllOfItOrNone) {
  Config config = in_axes(uneven(GetParam().family, GetParam().optimizer), GetParam().axes);
  if (GetParam().axes.ep > 1) {
    config.train.global_batch_size = 8;  // as many micro-batches on each rank
    config.model.num_experts = 6;
  }
  const VerifyRun whole = run_layout(config, LayoutHooks{}, kSteps);
  // Under a sanitizer every eleventh call, and so in turn those of all kinds.
  const int64_t stride = any_sanitizer ? 11 : 1;
  int failures = 0;
  for (int rank = 0; rank < ranks_of(config); ++rank) {
    Plan undisturbed(rank);
    ASSERT_TRUE(compare(run(config, undisturbed, false), whole).bitwise);
    const std::vector<int64_t>& after = undisturbed.calls_after_step;
    // The calls of step 2, and those that complete it in step 3.
    const int64_t first = after.at(0), last = std::min(after.at(1) + 3, after.at(2));
    ASSERT_GT(last, first);
    for (int64_t call = first; call < last; call += stride) {
      Plan plan(rank, call);
      const VerifyRun got = run(config, plan, true);
      ASSERT_FALSE(plan.failed_call.empty()) << "rank " << rank << ", call " << call;
      ++failures;
      EXPECT_EQ(got.losses.size(), whole.losses.size())
          << "rank " << rank << ", call '" << plan.failed_call << "'";
      EXPECT_TRUE(compare(got, whole).bitwise) << "rank " << rank << ", call '" << plan.failed_call << "'";
    }
  }
  RecordProperty("planted_failures", failures);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, AllOrNothing,
    testing::Values(Case{"llama", "adamw", {.dp = 2}}, Case{"gpt2", "sgd", {.dp = 3, .zero = 1}},
                    Case{"llama", "adamw", {.dp = 2, .zero = 2}}, Case{"gpt2", "adamw", {.dp = 2, .zero = 3}},
                    Case{"gpt2", "sgd", {.tp = 2}}, Case{"llama", "adamw", {.dp = 2, .tp = 2, .sp = true}},
                    Case{"gpt2", "adamw", {.pp = 2}}, Case{"llama", "sgd", {.dp = 2, .pp = 2, .zero = 1}},
                    Case{"llama", "adamw", {.cp = 2, .cp_method = "ring"}},
                    Case{"moe", "adamw", {.dp = 2, .ep = 2}},
                    Case{"moe", "sgd", {.dp = 2, .tp = 2, .zero = 2}}));

}  // namespace
}  // namespace athanor::tests::all_or_nothing_test
