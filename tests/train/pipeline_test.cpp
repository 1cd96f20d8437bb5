// Law 1 for pipelines: a model cut into stages, by any schedule, trains to the bits of one process.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <mutex>

#include "athanor/base/error.h"
#include "athanor/comm/tree.h"
#include "athanor/pipeline/execute.h"
#include "athanor/train/model_stage.h"
#include "train/small_training.h"

namespace athanor {
namespace {

struct Cut {
  std::string schedule;
  int ranks;
  std::vector<int64_t> stage_layers;  // empty: even
};

Config pipeline_config(const std::string& family, const std::string& optimizer) {
  Config config = tiny(family);
  config.model.layers = 7;
  config.model.dropout = 0.1;
  config.optimizer.name = optimizer;
  return config;
}

// What the ranks of a step have to tell each other, law 5's way: every figure by its name, added in one
// order.
struct Board {
  std::mutex mutex;
  std::map<std::string, double> squares;  // of gradients, by parameter
  std::vector<double> losses;             // by grain
};

// One rank of a pipeline. A step is StepRunner's, with the executor in place of the loop over grains.
class PipelineRank {
 public:
  PipelineRank(const Config& config, const Cut& cut, Group& group, Group* ends, Board& board)
      : config_(config), group_(group), ends_(ends), board_(board), model_(make_model(config.model)) {
    const auto grains = static_cast<int>((config.train.global_batch + config.train.micro_batch - 1) /
                                         config.train.micro_batch);
    const Schedule schedule = make_schedule(cut.schedule, {cut.ranks, grains, 0});
    const auto parts =
        cut_model(cut.stage_layers.empty() ? even_stage_layers(config.model.layers, schedule.num_stages())
                                           : cut.stage_layers);
    const std::vector<int> mine = schedule.stages_of(group.rank());
    std::vector<ModelPart> kept;
    for (const int stage : mine) kept.push_back(parts[static_cast<size_t>(stage)]);
    for (const auto& param : model_->params()) names_.push_back(param->name());
    const int64_t whole = model_->num_params();
    model_->keep(kept);
    EXPECT_EQ(model_->num_params(), whole);
    model_->allocate(engine_.arena, parse_dtype(config.precision.compute), true);
    model_->initialize(config.train.seed);
    const OptimizerConfig& o = config.optimizer;
    optimizer_ = make_optimizer({.name = o.name,
                                 .beta1 = o.betas[0],
                                 .beta2 = o.betas[1],
                                 .eps = o.eps,
                                 .momentum = o.momentum,
                                 .weight_decay = o.weight_decay},
                                model_->params());
    optimizer_->allocate(engine_.arena);
    const RecomputePlan recompute = parse_recompute(config.parallel.recompute).value_or(RecomputePlan{});
    ModelStageHooks hooks;
    hooks.micro_batch = [this](int micro) { return micro_batch(micro); };
    hooks.on_loss = [this](int micro, const Tensor& loss) { note_loss(micro, loss); };
    std::vector<Stage*> stages;
    for (const ModelPart& part : kept) {
      stages_.push_back(std::make_unique<ModelStage>(*model_, part, recompute, hooks));
      stages.push_back(stages_.back().get());
    }
    executor_ = std::make_unique<Executor>(schedule, stages, group);
  }

  void step(int64_t number, StepResult& result) {
    step_ = number;
    for (Weight* weight : model_->weights()) {
      if (number == 1)
        weight->set_grad(zeros(engine_.arena, weight->param().shape(), Dtype::f32, Category::gradients));
      weight->begin_grad();
    }
    executor_->run();
    for (Weight* weight : model_->weights()) weight->end_grad();
    for (const auto& param : model_->params()) grads_[param.get()] = sum_of_uses(*param);
    {
      const std::lock_guard lock(board_.mutex);
      for (const auto& [param, grad] : grads_)
        kernels(grad).elementwise.sum_squares(grad.queue(), {&grad, 1}, {&board_.squares[param->name()], 1});
    }
    group_.barrier("norms");
    double squares = 0.0;
    for (const std::string& name : names_) squares += board_.squares.at(name);
    result.tokens = config_.train.global_batch * config_.data.seq_len;
    const double to_mean = 1.0 / static_cast<double>(result.tokens);
    result.loss = tree_sum(board_.losses) / static_cast<double>(result.tokens);
    result.grad_norm = std::sqrt(squares) * to_mean;
    const double clip = result.grad_norm > config_.optimizer.clip_norm
                            ? config_.optimizer.clip_norm / (result.grad_norm + 1e-6)
                            : 1.0;
    const ScheduleConfig& s = config_.schedule;
    const LrSchedule rate{s.decay,        config_.optimizer.lr, config_.train.steps,
                          s.warmup_steps, s.min_lr_ratio,       s.wsd_decay_fraction};
    optimizer_->step([this](Param& param) -> const Tensor& { return grads_.at(&param); },
                     {.update = number, .lr = rate.at(number), .grad_scale = to_mean * clip});
    group_.barrier("step");
  }

  const Model& model() const { return *model_; }

 private:
  MicroBatch micro_batch(int micro) {
    const Batch batch = make_batch(config_, step_, micro);
    return {{.seed = config_.train.seed,
             .step = static_cast<uint64_t>(step_),
             .first_sequence = batch.first_index,
             .record = true,
             .dropout = true},
            to_tensor(engine_.arena, batch.tokens, batch.num_sequences, batch.seq_len),
            to_tensor(engine_.arena, batch.targets, batch.num_sequences, batch.seq_len)};
  }
  void note_loss(int micro, const Tensor& loss) {
    // By channel first, as StepRunner adds: sequences alternate between two of them.
    const Batch batch = make_batch(config_, step_, micro);
    std::array<double, 2> sums{};
    const std::vector<float> values = to_floats(loss);
    for (size_t i = 0; i < values.size(); ++i)
      sums[static_cast<size_t>(batch.channel_of[i / static_cast<size_t>(batch.seq_len)])] += values[i];
    board_.losses[static_cast<size_t>(micro)] = sums[0] + sums[1];
  }
  Tensor sum_of_uses(Param& param) {
    Tensor sum = param.uses().front()->grad();
    for (size_t use = 1; use < param.uses().size(); ++use)
      kernels(sum).elementwise.accumulate(sum.queue(), sum, param.uses()[use]->grad());
    if (ends_ != nullptr && param.name() == "embed.weight" && config_.model.tie_embeddings)
      add_tied_uses(*ends_, sum, param.name()).wait();
    return sum;
  }

  const Config& config_;
  Group& group_;
  Group* ends_;  // null: this rank has neither end, or both
  Board& board_;
  Engine engine_;
  std::vector<std::string> names_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<std::unique_ptr<ModelStage>> stages_;
  std::unique_ptr<Executor> executor_;
  std::map<Param*, Tensor> grads_;
  int64_t step_ = 0;
};

Outcome run_pipeline(const Config& config, const Cut& cut) {
  const auto groups = make_thread_groups(cut.ranks);
  const Schedule shape = make_schedule(cut.schedule, {cut.ranks, 1, 0});
  const int first = shape.rank_of_stage.front(), last = shape.rank_of_stage.back();
  const auto ends = make_thread_groups(2);
  Board board;
  const int64_t micro = config.train.micro_batch;
  board.losses.resize(static_cast<size_t>((config.train.global_batch + micro - 1) / micro));
  Outcome outcome;
  outcome.steps.resize(static_cast<size_t>(config.train.steps));
  std::map<std::string, std::vector<float>> weights;
  run_ranks(groups, [&](Group& group) {
    Group* const mine = first == last           ? nullptr
                        : group.rank() == first ? ends[0].get()
                        : group.rank() == last  ? ends[1].get()
                                                : nullptr;
    PipelineRank rank(config, cut, group, mine, board);
    for (int64_t step = 1; step <= config.train.steps; ++step) {
      StepResult result;
      rank.step(step, group.rank() == 0 ? outcome.steps[static_cast<size_t>(step - 1)] : result);
    }
    const std::lock_guard lock(board.mutex);
    for (const auto& param : rank.model().params()) {
      std::vector<float> values(static_cast<size_t>(param->numel()));
      param->load(values.data());
      const auto [entry, is_new] = weights.try_emplace(param->name(), values);
      EXPECT_TRUE(is_new || entry->second == values) << param->name() << " differs between its ranks";
    }
  });
  const auto whole = make_model(config.model);
  for (const auto& param : whole->params()) {
    const auto& values = weights.at(param->name());
    outcome.weights.insert(outcome.weights.end(), values.begin(), values.end());
  }
  return outcome;
}

void expect_same_bits(const Outcome& one, const Outcome& many, const std::string& what) {
  for (size_t i = 0; i < one.steps.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint64_t>(one.steps[i].loss), std::bit_cast<uint64_t>(many.steps[i].loss))
        << what;
    EXPECT_EQ(std::bit_cast<uint64_t>(one.steps[i].grad_norm),
              std::bit_cast<uint64_t>(many.steps[i].grad_norm))
        << what << ", step " << i + 1;
  }
  EXPECT_TRUE(one.weights == many.weights) << what;
}

const std::vector<Cut> kCuts = {{"gpipe", 2, {}},       {"1f1b", 3, {}},       {"1f1b", 1, {}},
                                {"interleaved", 2, {}}, {"bfs", 3, {}},        {"zb-h1", 3, {}},
                                {"zb-v", 2, {}},        {"dualpipe-v", 3, {}}, {"1f1b", 4, {0, 5, 1, 1}},
                                {"zb-h1", 2, {6, 1}},   {"1f1b", 2, {7, 0}},   {"zb-v", 2, {1, 3, 2, 1}}};

class PipelineTest : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(PipelineTest, EveryScheduleTrainsToTheBitsOfOneProcess) {
  const auto& [family, optimizer] = GetParam();
  Config config = pipeline_config(family, optimizer);
  for (const char* compute : {"f32", "bf16"}) {
    config.precision.compute = compute;
    const Outcome one = run(config, 1);
    for (const Cut& cut : kCuts)
      expect_same_bits(
          one, run_pipeline(config, cut),
          std::string(compute) + " " + cut.schedule + ", " + std::to_string(cut.ranks) + " ranks");
    for (const char* recompute : {"full", "selective", "group:2", "full*3,selective*2,none"}) {
      config.parallel.recompute = recompute;
      for (const char* schedule : {"zb-h1", "zb-v"})
        expect_same_bits(one, run_pipeline(config, {schedule, 2, {}}),
                         std::string(schedule) + " " + recompute);
    }
    config.parallel.recompute = "none";
  }
}

INSTANTIATE_TEST_SUITE_P(All, PipelineTest,
                         ::testing::Values(std::pair{"llama", "adamw"}, std::pair{"llama", "sgd"},
                                           std::pair{"gpt2", "adamw"}, std::pair{"gpt2", "sgd"}),
                         [](const auto& each) {
                           return fmt::format("{}_{}", each.param.first, each.param.second);
                         });

TEST(Parts, LayersAreCutEvenly) {
  using ::testing::ElementsAre;
  EXPECT_THAT(even_stage_layers(8, 4), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(even_stage_layers(9, 4), ElementsAre(2, 3, 2, 2));
  EXPECT_THAT(even_stage_layers(11, 4), ElementsAre(3, 3, 3, 2));
  EXPECT_THAT(even_stage_layers(7, 2), ElementsAre(4, 3));
  EXPECT_THAT(even_stage_layers(5, 1), ElementsAre(5));
  EXPECT_THROW(even_stage_layers(3, 4), ConfigError);
  EXPECT_THROW(even_stage_layers(3, 0), ConfigError);
  EXPECT_THROW(cut_model({2, 0, 2}), ConfigError);
  EXPECT_THROW(cut_model({2, -1}), ConfigError);
  EXPECT_EQ(cut_model({2, 3})[1], (ModelPart{2, 5, false, true}));
}

TEST(Parts, EveryUseIsInExactlyOnePart) {
  for (const char* family : {"llama", "gpt2"}) {
    const auto model = make_model(pipeline_config(family, "sgd").model);
    const auto parts = cut_model({3, 3, 1});
    for (const Weight* use : model->weights()) {
      int found = 0;
      for (const ModelPart& part : parts) found += part.has(use->use()) ? 1 : 0;
      EXPECT_EQ(found, 1) << use->use();
    }
  }
}

// Parameters of other parts get no memory, and the plan counts from the whole model's first block.
TEST(Parts, OnlyWhatIsKeptIsAllocated) {
  const Config config = pipeline_config("gpt2", "sgd");
  const auto whole = make_model(config.model);
  const auto parts = cut_model({3, 3, 1});
  int64_t floats = 0, tied = 0;
  for (const ModelPart& part : parts) {
    Engine engine;
    const auto model = make_model(config.model);
    model->keep(std::vector{part});
    model->allocate(engine.arena, Dtype::f32, true);
    int64_t here = 0;
    for (const auto& param : model->params()) {
      here += param->numel();
      if (param->name() == "embed.weight") tied = param->numel();
    }
    EXPECT_LE(engine.arena.usage().current[static_cast<size_t>(Category::parameters)],
              static_cast<uint64_t>(here) * 4 + 64 * model->params().size());
    EXPECT_EQ(model->flops_per_token(12), whole->flops_per_token(12));
    floats += here;
  }
  EXPECT_EQ(floats, whole->num_params() + tied);  // the table is on the first and the last rank
}

}  // namespace
}  // namespace athanor
