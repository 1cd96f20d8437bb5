// The executor does what the simulator says, and its gradients have the bits of one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "athanor/base/error.h"
#include "athanor/comm/shm/thread.h"
#include "athanor/ops/ops.h"
#include "athanor/pipeline/execute.h"
#include "athanor/pipeline/simulate.h"
#include "athanor/pipeline/solve.h"
#include "athanor/pipeline/tape_stage.h"
#include "athanor/pipeline/validate.h"
#include "support/engine.h"

namespace athanor::tests::execute_test {
namespace {

std::vector<Schedule> schedules(int p, int m) {
  std::vector<Schedule> all;
  for (const std::string& name : schedule_names()) all.push_back(make_schedule(name, {p, m, 0}));
  all.push_back(make_schedule("interleaved", {p, m, 3}));
  all.push_back(
      solve({p, m, 2, {std::vector<StageCost>(static_cast<size_t>(2 * p), {3, 2, 4, 1}), 0.5}, 0}).schedule);
  return all;
}

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
  Tensor forward(int micro, const Tensor& x) override {
    act({Act::forward, stage_, micro}, x, stage_ - 1, Act::forward);
    return stage_ + 1 < schedule_.num_stages() ? made(Act::forward, micro) : Tensor{};
  }
  Tensor backward(int micro, const Tensor& dy) override { return back(Act::backward, micro, dy); }
  Tensor backward_input(int micro, const Tensor& dy) override { return back(Act::input_grad, micro, dy); }
  void backward_weight(int micro) override {
    act({Act::weight_grad, stage_, micro}, {}, -1, Act::weight_grad);
  }
  Tensor make_boundary(int) override { return empty(arena_, {4}, Dtype::f64, Category::activations); }

 private:
  Tensor back(Act kind, int micro, const Tensor& dy) {
    act({kind, stage_, micro}, dy, stage_ + 1, Act::input_grad);
    return stage_ > 0 ? made(Act::input_grad, micro) : Tensor{};
  }
  void act(const Action& action, const Tensor& got, int from, Act kind) {
    double start = clock_.now;
    if (got.defined()) {
      const auto* values = got.data<double>();
      EXPECT_EQ(values[1], from);
      EXPECT_EQ(values[2], action.micro_batch);
      EXPECT_EQ(values[3], static_cast<double>(kind));
      const auto home = [&](int stage) { return schedule_.rank_of_stage[static_cast<size_t>(stage)]; };
      start = std::max(start, values[0] + (home(from) == home(stage_) ? 0.0 : costs_.link));
    }
    clock_.now = start + duration(costs_.stages[static_cast<size_t>(stage_)], action.act);
    clock_.events.push_back({action, start, clock_.now});
  }
  Tensor made(Act kind, int micro) {
    Tensor tensor = make_boundary(micro);
    const std::array<double, 4> values = {clock_.now, static_cast<double>(stage_), static_cast<double>(micro),
                                          static_cast<double>(kind)};
    copy_from_host(tensor, values.data(), sizeof values);
    return tensor;
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
    Executor executor(schedule, stages, group, options);
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

// A small model: token embedding, some linear layers with an activation between, a head. Layer l of the
// model belongs to a stage; weights have random values by name, so stages of any cut start from the same
// ones.
constexpr int64_t kLayers = 9, kWidth = 16, kVocab = 23, kTokens = 6;

class Net : public TapeStage {
 public:
  Net(Engine& engine, int64_t first, int64_t last, bool embeds, bool ends)
      : TapeStage(ends), engine_(engine), first_(first), last_(last), embeds_(embeds), ends_(ends) {
    if (embeds) declare("embed", {kVocab, kWidth});
    for (int64_t layer = first; layer < last; ++layer)
      declare("layer" + std::to_string(layer), {kWidth, kWidth});
    if (ends) declare("head", {kVocab, kWidth});
  }
  Tensor make_boundary(int micro) override {
    return empty(engine_.arena, {rows(micro), kTokens, kWidth}, Dtype::f32, Category::activations);
  }
  std::map<std::string, std::vector<float>> gradients() const {
    std::map<std::string, std::vector<float>> all;
    for (const auto& param : params_) all[param->name()] = to_floats(param->uses().front()->grad());
    return all;
  }
  std::vector<float> losses;

 protected:
  PassContext context(int) override { return {.record = true}; }
  Var compute(Tape& tape, int micro, const Var& x) override {
    const std::string address = std::to_string(micro);
    size_t next = 0;
    Var y = x;
    if (embeds_) y = embedding(tape, ids(micro, "ids"), weight(next++), nullptr, 0);
    for (int64_t layer = first_; layer < last_; ++layer) y = add(y, gelu(linear(y, weight(next++), nullptr)));
    if (!ends_) return y;
    const Var loss = linear_cross_entropy(y, weight(next), ids(micro, "targets"), kVocab);
    for (const float each : to_floats(loss.value)) losses.push_back(each);
    return loss;
  }

 private:
  static int64_t rows(int micro) { return micro % 2 + 1; }  // micro-batches need not be of one size
  Tensor ids(int micro, const char* what) {
    return engine_.ids({rows(micro), kTokens}, kVocab, what + std::to_string(micro));
  }
  Weight& weight(size_t i) { return *params_[i]->uses().front(); }
  void declare(const std::string& name, const Shape& shape) {
    params_.push_back(engine_.param(shape, name, 0.3f));
    params_.back()->uses().front()->set_grad(zeros(engine_.arena, shape, Dtype::f32, Category::gradients));
  }

  Engine& engine_;
  int64_t first_, last_;
  bool embeds_, ends_;
  std::vector<std::unique_ptr<Param>> params_;
};

// On the wire: an activation and a gradient of every micro-batch at each boundary between stages of different ranks.
int64_t boundary_bytes(const Schedule& schedule) {
  int64_t elements = 0;
  for (int s = 1; s < schedule.num_stages(); ++s)
    for (int micro = 0; micro < schedule.micro_batches; ++micro)
      if (schedule.rank_of_stage[static_cast<size_t>(s)] !=
          schedule.rank_of_stage[static_cast<size_t>(s - 1)])
        elements += 2 * (micro % 2 + 1) * kTokens * kWidth;
  return elements * static_cast<int64_t>(sizeof(float));
}

struct Outcome {
  std::map<std::string, std::vector<float>> gradients;
  std::vector<float> losses;
  bool operator==(const Outcome&) const = default;
};

// Stage s has layers [cut[s], cut[s+1]).
Outcome run(const Schedule& schedule, const std::vector<int64_t>& cut) {
  const auto groups = make_thread_groups(schedule.num_ranks());
  std::vector<Outcome> outcomes(schedule.ranks.size());
  run_ranks(groups, [&](Group& group) {
    Engine engine;
    std::vector<std::unique_ptr<Net>> nets;
    std::vector<Stage*> stages;
    for (const int stage : schedule.stages_of(group.rank())) {
      const auto s = static_cast<size_t>(stage);
      nets.push_back(
          std::make_unique<Net>(engine, cut[s], cut[s + 1], stage == 0, stage + 1 == schedule.num_stages()));
      stages.push_back(nets.back().get());
    }
    const uint64_t before = engine.arena.usage().current[static_cast<size_t>(Category::activations)];
    Executor(schedule, stages, group).run();
    Outcome& outcome = outcomes[static_cast<size_t>(group.rank())];
    for (const auto& net : nets) {
      EXPECT_EQ(net->num_held(), 0) << "of a micro-batch something was kept";
      outcome.gradients.merge(net->gradients());
      if (!net->losses.empty()) outcome.losses = net->losses;
    }
    EXPECT_EQ(engine.arena.usage().current[static_cast<size_t>(Category::activations)], before)
        << "memory is left";
  });
  Traffic traffic;
  for (const auto& group : groups) traffic += group->traffic();
  EXPECT_EQ(traffic.of(Collective::send).bytes, boundary_bytes(schedule));
  EXPECT_EQ(traffic.total().bytes, boundary_bytes(schedule));
  for (size_t r = 1; r < outcomes.size(); ++r) {
    outcomes[0].gradients.merge(outcomes[r].gradients);
    if (!outcomes[r].losses.empty()) outcomes[0].losses = outcomes[r].losses;
  }
  return outcomes[0];
}

std::vector<int64_t> even_cut(int stages) {
  std::vector<int64_t> cut;
  for (int s = 0; s <= stages; ++s) cut.push_back(kLayers * s / stages);
  return cut;
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
  Tensor forward(int micro, const Tensor& x) override {
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
                             Executor(schedule, {stage}, group).run();
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
  EXPECT_THROW(Executor(make_schedule("1f1b", {2, 2, 1}), {}, *group), Error);  // two ranks in a group of one
  EXPECT_THROW(Executor(make_schedule("1f1b", {1, 2, 1}), {}, *group), Error);  // no stage
  Engine engine;
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
