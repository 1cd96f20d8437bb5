// athanor-bench pipeline: compares the pipeline executor with the simulator, with stages that only sleep or with a
// model's stages.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <thread>

#include "apps/measure/bench_model.h"
#include "apps/measure/stage_times.h"
#include "apps/measure/timing.h"
#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/base/nearest.h"
#include "athanor/base/philox.h"
#include "athanor/comm/shm/thread.h"
#include "athanor/config/validate.h"
#include "athanor/engine/model_stage.h"
#include "athanor/layout/stages.h"
#include "athanor/observe/report.h"
#include "athanor/pipeline/execute.h"
#include "athanor/pipeline/solve.h"
#include "bench.h"

namespace athanor::apps {
namespace {

// Three runs with the same stages: the first warms up, the second measures the actions of real stages, the third is
// compared with what the simulator predicts from these times.
enum Run { warm_up, calibration, comparison, kRuns };

struct Times {
  double total = 0.0;
  int count = 0;
  double mean() const { return count == 0 ? 0.0 : total / count; }
};

using StageTimes = std::map<Act, Times>;  // of one stage, without its waits for others

class TimedStage : public Stage {
 public:
  explicit TimedStage(std::unique_ptr<Stage> stage) : stage_(std::move(stage)) {}
  std::vector<TensorSpec> inputs(int micro) override { return stage_->inputs(micro); }
  std::vector<TensorSpec> outputs(int micro) override { return stage_->outputs(micro); }
  std::vector<Tensor> forward(int micro, const std::vector<Tensor>& x) override {
    return timed(Act::forward, [&] { return stage_->forward(micro, x); });
  }
  std::vector<Tensor> backward(int micro, const std::vector<Tensor>& dy) override {
    return timed(Act::backward, [&] { return stage_->backward(micro, dy); });
  }
  std::vector<Tensor> backward_input(int micro, const std::vector<Tensor>& dy) override {
    return timed(Act::input_grad, [&] { return stage_->backward_input(micro, dy); });
  }
  void backward_weight(int micro) override {
    timed(Act::weight_grad, [&] {
      stage_->backward_weight(micro);
      return std::vector<Tensor>{};
    });
  }
  StageTimes take_times() { return std::exchange(times_, {}); }

 private:
  template <typename Body>
  std::vector<Tensor> timed(Act act, const Body& body) {
    const double start = now_seconds();
    std::vector<Tensor> result = body();
    Times& times = times_[act];
    times.total += now_seconds() - start;
    ++times.count;
    return result;
  }
  std::unique_ptr<Stage> stage_;
  StageTimes times_;
};

// Takes its time and does nothing: more ranks than cores do not disturb each other.
class SleepingStage : public Stage {
 public:
  SleepingStage(const StageCost& cost, bool is_first, bool is_last, Arena& arena)
      : cost_(cost), is_first_(is_first), is_last_(is_last), arena_(arena) {}
  std::vector<TensorSpec> inputs(int) override { return boundary(is_first_); }
  std::vector<TensorSpec> outputs(int) override { return boundary(is_last_); }
  std::vector<Tensor> forward(int micro, const std::vector<Tensor>&) override {
    return pass(Act::forward, outputs(micro));
  }
  std::vector<Tensor> backward(int micro, const std::vector<Tensor>&) override {
    return pass(Act::backward, inputs(micro));
  }
  std::vector<Tensor> backward_input(int micro, const std::vector<Tensor>&) override {
    return pass(Act::input_grad, inputs(micro));
  }
  void backward_weight(int) override { pass(Act::weight_grad, {}); }

 private:
  static std::vector<TensorSpec> boundary(bool is_end) {
    return is_end ? std::vector<TensorSpec>{} : std::vector<TensorSpec>{{"nothing", {4}, Dtype::f32}};
  }
  // Sleeps nearly all of it; the system wakes late, so the rest is spent looking at the clock.
  std::vector<Tensor> pass(Act act, const std::vector<TensorSpec>& specs) const {
    const int64_t end = now_ns() + static_cast<int64_t>(duration(cost_, act) * 1e9);
    constexpr int64_t kWakesLateNs = 150'000;
    if (const int64_t most = end - now_ns() - kWakesLateNs; most > 0)
      std::this_thread::sleep_for(std::chrono::nanoseconds(most));
    while (now_ns() < end) std::this_thread::yield();
    std::vector<Tensor> made;
    for (const TensorSpec& spec : specs)
      made.push_back(zeros(arena_, spec.shape, spec.dtype, Category::activations));
    return made;
  }
  StageCost cost_;
  bool is_first_, is_last_;
  Arena& arena_;
};

struct Comparison {
  std::string name;
  Series measured, simulated;  // by round; seconds
};

struct BenchPipeline {
  std::string schedule = "all", kind = "timed", times = "10,10,10", preset = "llama-tiny", dtype = "f32";
  int ranks = 0, micro_batches = 8;  // ranks 0: 4 timed ones, 2 real ones
  int64_t batch = 2, seq = 128, rounds = 7;
  bool json = false;

  void run();

 private:
  bool is_real() const { return kind == "real"; }
  std::vector<std::string> names() const;
  Schedule make(const std::string& name) const;
  StageCost stage_cost(const Schedule& made) const;
  std::vector<std::unique_ptr<TimedStage>> make_stages(const Schedule& made, int rank, Arena& arena,
                                                       std::unique_ptr<Model>& model) const;
  MicroBatch micro_batch(int micro, Arena& arena) const;
  void measure(Comparison& row) const;
  void print(const std::vector<Comparison>& all) const;

  StageCost cost_;  // of a rank's work for one micro-batch, seconds
  Config config_;
};

std::vector<std::string> BenchPipeline::names() const {
  std::vector<std::string> known = schedule_names();
  if (!is_real()) known.emplace_back(kAuto);
  if (schedule == "all") return known;
  if (std::find(known.begin(), known.end(), schedule) == known.end()) {
    const std::string nearest = nearest_name(schedule, known);
    throw ConfigError(fmt::format("bench pipeline: --schedule '{}' is unknown", schedule),
                      nearest.empty() ? "" : "did you mean '" + nearest + "'?");
  }
  return {schedule};
}

// Ranks have the same work in every schedule: those of several stages have it in parts.
StageCost BenchPipeline::stage_cost(const Schedule& made) const {
  const double part = static_cast<double>(made.num_ranks()) / made.num_stages();
  return {cost_.forward * part, cost_.input * part, cost_.weight * part, 1.0};
}

Schedule BenchPipeline::make(const std::string& name) const {
  if (name != kAuto) return make_schedule(name, {ranks, micro_batches, 0});
  const Costs costs{std::vector<StageCost>(static_cast<size_t>(ranks), cost_), 0.0};
  return solve({.ranks = ranks, .micro_batches = micro_batches, .costs = costs}).schedule;
}

MicroBatch BenchPipeline::micro_batch(int micro, Arena& arena) const {
  const RandomStream stream(1, "bench");
  const auto ids = [&](uint64_t step) {
    std::vector<int32_t> values;
    for (int64_t i = 0; i < batch * seq; ++i)
      values.push_back(static_cast<int32_t>(stream.word(static_cast<uint64_t>(i), step) %
                                            static_cast<uint64_t>(config_.model.vocab_size)));
    return to_tensor(arena, values, batch, seq);
  };
  MicroBatch made{.context = {.seed = 1,
                              .step = 1,
                              .first_sequence = micro * batch,
                              .num_sequences = batch,
                              .seq_len = seq,
                              .record = true},
                  .inputs = {.ids = ids(2 * static_cast<uint64_t>(micro)),
                             .targets = ids(2 * static_cast<uint64_t>(micro) + 1)}};
  return made;
}

std::vector<std::unique_ptr<TimedStage>> BenchPipeline::make_stages(const Schedule& made, int rank,
                                                                    Arena& arena,
                                                                    std::unique_ptr<Model>& model) const {
  std::vector<std::unique_ptr<TimedStage>> stages;
  const std::vector<int> mine = made.stages_of(rank);
  if (!is_real()) {
    for (const int stage : mine)
      stages.push_back(std::make_unique<TimedStage>(std::make_unique<SleepingStage>(
          stage_cost(made), stage == 0, stage + 1 == made.num_stages(), arena)));
    return stages;
  }
  const auto parts = cut_model(even_stage_layers(config_.model.num_hidden_layers, made.num_stages()));
  std::vector<ModelPart> kept;
  for (const int stage : mine) kept.push_back(parts[static_cast<size_t>(stage)]);
  model = make_model(config_.model);
  model->keep(kept);
  model->allocate(arena, parse_dtype(dtype), true);
  model->initialize(1);
  for (Weight* weight : model->weights())
    weight->set_grad(zeros(arena, weight->param().shape(), Dtype::f32, Category::gradients));
  const ModelStageHooks hooks{.micro_batch = [this, &arena](int micro) { return micro_batch(micro, arena); },
                              .on_loss = [](int, const Tensor&) {}};
  for (const ModelPart& part : kept)
    stages.push_back(
        std::make_unique<TimedStage>(std::make_unique<ModelStage>(*model, part, RecomputePlan{}, hooks)));
  return stages;
}

// If a schedule never separates the halves of backward, the first half is given all of its time.
StageCost cost_of(StageTimes times) {
  const bool halves = times[Act::input_grad].count > 0;
  return {times[Act::forward].mean(), times[halves ? Act::input_grad : Act::backward].mean(),
          halves ? times[Act::weight_grad].mean() : 0.0, 1.0};
}

void BenchPipeline::measure(Comparison& row) const {
  const Schedule made = make(row.name);
  Costs costs = uniform_costs(made, stage_cost(made));
  const auto groups = make_thread_groups(ranks);
  std::vector<double> starts(groups.size()), ends(groups.size());
  run_ranks(groups, [&](Group& group) {
    const auto me = static_cast<size_t>(group.rank());
    ThreadPool pool(1);
    const auto queue = make_cpu_queue(&pool, best_isa());
    Arena arena(*queue);
    std::unique_ptr<Model> model;
    const auto stages = make_stages(made, group.rank(), arena, model);
    std::vector<Stage*> pointers;
    for (const auto& stage : stages) pointers.push_back(stage.get());
    std::vector<Action> order;
    ExecutorOptions options;
    options.after_action = [&](const Action& action) { order.push_back(action); };
    Executor executor(made, pointers, group, arena, options);
    for (int run = 0; run < kRuns; ++run) {
      order.clear();
      group.barrier("start");
      starts[me] = now_seconds();
      executor.run();
      ends[me] = now_seconds();
      check(order == made.ranks[me], "bench pipeline: {}: rank {} did not keep to its schedule", made.name,
            me);
      const std::vector<int> mine = made.stages_of(group.rank());
      for (size_t k = 0; k < mine.size(); ++k) {
        const StageTimes taken = stages[k]->take_times();
        if (run == calibration && is_real()) costs.stages[static_cast<size_t>(mine[k])] = cost_of(taken);
      }
    }
  });
  const double measured =
      *std::max_element(ends.begin(), ends.end()) - *std::min_element(starts.begin(), starts.end());
  const double simulated = simulate(made, costs).makespan;
  row.measured.values.push_back(measured);
  row.simulated.values.push_back(simulated);
}

void BenchPipeline::print(const std::vector<Comparison>& all) const {
  Report report;
  report["stages"] = kind;
  report["ranks"] = ranks;
  report["micro_batches"] = micro_batches;
  report["rounds"] = rounds;
  if (is_real()) {
    report["preset"] = preset;
    report["dtype"] = dtype;
    report["batch"] = batch;
    report["seq"] = seq;
  } else {
    report["times_ms"] = times;
  }
  if (!json)
    std::cout << fmt::format("{} stages, {} ranks, {} micro-batches, {} rounds\n{:<12}{:>14}{:>15}{:>17}\n",
                             kind, ranks, micro_batches, rounds, "schedule", "measured ms", "simulated ms",
                             "measured/sim.");
  for (const Comparison& row : all) {
    const double ratio = median_ratio(row.measured, row.simulated);
    Report entry;
    entry["schedule"] = row.name;
    entry["measured_ms"] = to_report(row.measured, 1e3);
    entry["simulated_ms"] = to_report(row.simulated, 1e3);
    entry["ratio"] = ratio;
    report["schedules"].push_back(entry);
    if (!json)
      std::cout << fmt::format("{:<12}{:>14.1f}{:>15.1f}{:>17.3f}\n", row.name, row.measured.median() * 1e3,
                               row.simulated.median() * 1e3, ratio);
  }
  if (json) std::cout << report.to_json();
}

void BenchPipeline::run() {
  if (ranks == 0) ranks = is_real() ? 2 : 4;
  cost_ = parse_stage_times("bench pipeline", times);
  for (double* part : {&cost_.forward, &cost_.input, &cost_.weight}) *part *= 1e-3;
  if (is_real()) {
    config_ = bench_config(preset, batch, seq, 1);
    config_.precision.compute = dtype;
    validate(config_);
  }
  std::vector<Comparison> all;
  for (const std::string& name : names()) all.push_back({name, {}, {}});
  std::vector<std::function<double()>> measurements;
  for (Comparison& row : all)
    measurements.emplace_back([this, &row] {
      measure(row);
      return 0.0;
    });
  interleave(rounds, measurements);
  print(all);
}

}  // namespace

void add_bench_pipeline(CLI::App& bench) {
  CLI::App* sub = bench.add_subcommand("pipeline", "Pipeline schedules as they run, beside the simulator");
  auto command = std::make_shared<BenchPipeline>();
  sub->add_option("--schedule", command->schedule, "One that athanor schedule knows, or all")
      ->capture_default_str();
  sub->add_option("--stages", command->kind,
                  "timed: stages only let --times pass; real: parts of a model, one thread each")
      ->capture_default_str()
      ->check(CLI::IsMember({"timed", "real"}));
  sub->add_option("--ranks", command->ranks, "Ranks, as threads (default: 4 timed, 2 real)")
      ->check(CLI::Range(1, 64));
  sub->add_option("--micro-batches", command->micro_batches, "Of a run")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 16));
  sub->add_option("--times", command->times, "F,B,W of a rank for a micro-batch, in milliseconds")
      ->capture_default_str();
  sub->add_option("--preset", command->preset, "The model of real stages")->capture_default_str();
  sub->add_option("--dtype", command->dtype, "f32, bf16 or f16")
      ->capture_default_str()
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  add_size(*sub, "--batch", command->batch, "Sequences in a micro-batch");
  add_size(*sub, "--seq", command->seq, "Tokens in a sequence");
  add_size(*sub, "--rounds", command->rounds, "How often each schedule is run, in turn");
  sub->add_flag("--json", command->json, "Print one JSON document");
  sub->callback([command] { command->run(); });
}

}  // namespace athanor::apps
