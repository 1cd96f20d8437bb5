// The executor does what the simulator says, and its gradients have the bits of one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "athanor/base/error.h"
#include "athanor/comm/shm/thread.h"
#include "athanor/pipeline/execute.h"
#include "athanor/pipeline/simulate.h"
#include "athanor/pipeline/validate.h"
#include "pipeline/net.h"
#include "support/engine.h"

namespace athanor::tests::execute_test {
namespace {

// Time on a rank of dummies. It passes only by actions, so it is the simulator's, whatever the machine does
// meanwhile.
struct Clock {
  double now = 0.0;
  std::vector<Event> events;
};

// What it passes on says when it was made and what it is: [time, stage, micro-batch, F or I].
class DummyStage : public Stage {
 public:
  DummyStage(const Schedule& schedule, int stage, const Costs& costs, Clock& clock, Arena& arena)
      : schedule_(schedule), stage_(stage), costs_(costs), clock_(clock), arena_(arena) {}
  std::vector<TensorSpec> inputs(int) override { return boundary(stage_ > 0); }
  std::vector<TensorSpec> outputs(int) override { return boundary(stage_ + 1 < schedule_.num_stages()); }
  std::vector<Tensor> forward(int micro, const std::vector<Tensor>& x) override {
    EXPECT_EQ(x.size(), inputs(micro).size());
    act({Act::forward, stage_, micro}, x, stage_ - 1, Act::forward);
    return made(outputs(micro), Act::forward, micro);
  }
  std::vector<Tensor> backward(int micro, const std::vector<Tensor>& dy) override {
    return back(Act::backward, micro, dy);
  }
  std::vector<Tensor> backward_input(int micro, const std::vector<Tensor>& dy) override {
    return back(Act::input_grad, micro, dy);
  }
  void backward_weight(int micro) override {
    act({Act::weight_grad, stage_, micro}, {}, -1, Act::weight_grad);
  }

 private:
  static std::vector<TensorSpec> boundary(bool exists) {
    return exists ? std::vector<TensorSpec>{{"times", {4}, Dtype::f64}} : std::vector<TensorSpec>{};
  }
  std::vector<Tensor> back(Act kind, int micro, const std::vector<Tensor>& dy) {
    EXPECT_EQ(dy.size(), outputs(micro).size());
    act({kind, stage_, micro}, dy, stage_ + 1, Act::input_grad);
    return made(inputs(micro), Act::input_grad, micro);
  }
  void act(const Action& action, const std::vector<Tensor>& got, int from, Act kind) {
    double start = clock_.now;
    for (const Tensor& each : got) {
      const auto* values = each.data<double>();
      EXPECT_EQ(values[1], from);
      EXPECT_EQ(values[2], action.micro_batch);
      EXPECT_EQ(values[3], static_cast<double>(kind));
      const auto home = [&](int stage) { return schedule_.rank_of_stage[static_cast<size_t>(stage)]; };
      start = std::max(start, values[0] + (home(from) == home(stage_) ? 0.0 : costs_.link));
    }
    clock_.now = start + duration(costs_.stages[static_cast<size_t>(stage_)], action.act);
    clock_.events.push_back({action, start, clock_.now});
  }
  std::vector<Tensor> made(const std::vector<TensorSpec>& specs, Act kind, int micro) {
    if (specs.empty()) return {};
    Tensor tensor = empty(arena_, specs.front(), Category::activations);
    const std::array<double, 4> values = {clock_.now, static_cast<double>(stage_), static_cast<double>(micro),
                                          static_cast<double>(kind)};
    copy_from_host(tensor, values.data(), sizeof values);
    return {tensor};
  }

  const Schedule& schedule_;
  int stage_;
  const Costs& costs_;
  Clock& clock_;
  Arena& arena_;
};

void expect_simulated(const Schedule& schedule, const Costs& costs, const ExecutorOptions& options) {
  const auto groups = make_thread_groups(schedule.num_ranks());
  std::vector<Clock> clocks(schedule.ranks.size());
  run_ranks(groups, [&](Group& group) {
    Engine engine;
    Clock& clock = clocks[static_cast<size_t>(group.rank())];
    std::vector<std::unique_ptr<DummyStage>> dummies;
    std::vector<Stage*> stages;
    for (const int stage : schedule.stages_of(group.rank())) {
      dummies.push_back(std::make_unique<DummyStage>(schedule, stage, costs, clock, engine.arena));
      stages.push_back(dummies.back().get());
    }
    Executor executor(schedule, stages, group, engine.arena, options);
    executor.run();
    clock = {};
    executor.run();  // a second step is like the first
  });
  const Simulation run = simulate(schedule, costs);
  for (size_t r = 0; r < clocks.size(); ++r) {
    ASSERT_EQ(clocks[r].events.size(), run.timeline[r].size());
    for (size_t k = 0; k < run.timeline[r].size(); ++k) {
      EXPECT_EQ(clocks[r].events[k].action, run.timeline[r][k].action);
      EXPECT_EQ(clocks[r].events[k].start, run.timeline[r][k].start) << str(run.timeline[r][k].action);
      EXPECT_EQ(clocks[r].events[k].end, run.timeline[r][k].end);
    }
  }
}

TEST(Execute, DummyStagesKeepTheSimulatorsTimes) {
  std::mt19937 dice(3);
  const auto roll = [&] { return std::uniform_int_distribution<int>(1, 9)(dice) / 4.0; };
  for (const int p : {1, 2, 3, 4})
    for (const int m : {1, 3, 8})
      for (const Schedule& schedule : schedules(p, m)) {
        SCOPED_TRACE(schedule.name + ", " + std::to_string(p) + " ranks, " + std::to_string(m) +
                     " micro-batches");
        Costs costs{{}, roll()};
        for (int s = 0; s < schedule.num_stages(); ++s) costs.stages.push_back({roll(), roll(), roll(), 1.0});
        ExecutorOptions options;
        options.receives_ahead = (p + m) % 3;
        expect_simulated(schedule, costs, options);
      }
}

TEST(Execute, EverySchedulesGradientsHaveTheBitsOfOneProcess) {
  for (const int m : {1, 3, 7}) {
    const Outcome one = run(make_schedule("gpipe", {1, m, 1}), {0, kLayers});
    ASSERT_EQ(one.gradients.size(), 11u);
    for (const int p : {1, 2, 3})
      for (const Schedule& schedule : schedules(p, m))
        EXPECT_TRUE(run(schedule, even_cut(schedule.num_stages())) == one)
            << schedule.name << ", " << p << " ranks, " << m << " micro-batches";
  }
}

TEST(Execute, UnevenStagesToo) {
  const Outcome one = run(make_schedule("1f1b", {1, 5, 1}), {0, kLayers});
  for (const char* name : {"1f1b", "zb-h1"})
    EXPECT_TRUE(run(make_schedule(name, {4, 5, 1}), {0, 0, 6, 7, kLayers}) == one)
        << name;  // the first only embeds
  for (const char* name : {"interleaved", "zb-v", "dualpipe-v"})
    EXPECT_TRUE(run(make_schedule(name, {2, 5, 2}), {0, 4, 5, kLayers, kLayers}) == one)
        << name;  // the last only ends
}

TEST(Execute, AnotherOrderOfMicroBatchesIsAnotherSum) {
  const Outcome one = run(make_schedule("gpipe", {1, 7, 1}), {0, kLayers});
  Schedule backwards = make_schedule("gpipe", {2, 7, 1});
  for (auto& actions : backwards.ranks) std::reverse(actions.begin() + 7, actions.end());
  EXPECT_THROW(validate(backwards), Error);  // which is why it is refused
  EXPECT_FALSE(run(backwards, even_cut(2)) == one);
}

class FailingStage : public DummyStage {
 public:
  using DummyStage::DummyStage;
  std::vector<Tensor> forward(int micro, const std::vector<Tensor>& x) override {
    check(micro < 2, "the stage broke");
    return DummyStage::forward(micro, x);
  }
};

TEST(Execute, AStageThatFailsIsNamedToAll) {
  const Schedule schedule = make_schedule("1f1b", {3, 6, 1});
  const Costs costs = uniform_costs(schedule, {});
  const auto groups = make_thread_groups(3);
  std::array<std::string, 3> heard;
  EXPECT_THROW(run_ranks(groups,
                         [&](Group& group) {
                           Engine engine;
                           Clock clock;
                           DummyStage whole(schedule, group.rank(), costs, clock, engine.arena);
                           FailingStage failing(schedule, group.rank(), costs, clock, engine.arena);
                           Stage* const stage = group.rank() == 1 ? &failing : &whole;
                           try {
                             Executor(schedule, {stage}, group, engine.arena).run();
                           } catch (const Failure& error) {
                             heard[static_cast<size_t>(group.rank())] = error.what();
                             throw;
                           }
                         }),
               Failure);
  EXPECT_EQ(heard[1], "the stage broke");
  for (const size_t rank : {0, 2})
    EXPECT_THAT(heard[rank], ::testing::HasSubstr("rank 1 failed: the stage broke"));
}

TEST(Execute, MisuseIsRefused) {
  const auto group = make_single_group();
  Engine engine;
  EXPECT_THROW(Executor(make_schedule("1f1b", {2, 2, 1}), {}, *group, engine.arena),
               Error);  // two ranks in a group of one
  EXPECT_THROW(Executor(make_schedule("1f1b", {1, 2, 1}), {}, *group, engine.arena), Error);  // no stage
  Net net(engine, 0, kLayers, true, true);
  EXPECT_THROW(net.backward(0, {}), Error);  // no forward
  net.forward(0, {});
  EXPECT_THROW(net.forward(0, {}), Error);
  EXPECT_THROW(net.backward_weight(0), Error);
  net.backward_input(0, {});
  EXPECT_THROW(net.backward_input(0, {}), Error);
  net.backward_weight(0);
  EXPECT_THROW(net.backward_weight(0), Error);
}

}  // namespace
}  // namespace athanor::tests::execute_test
