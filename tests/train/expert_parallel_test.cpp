// Law 1 for axis ep: experts that lie on several ranks compute what one process computes.
#include <gtest/gtest.h>

#include "athanor/comm/tree.h"
#include "athanor/parallel/expert_parallel.h"
#include "train/layout_run.h"

namespace athanor {
namespace {

struct Ranks {
  int dp = 1, ep = 1;  // ep consecutive ones share the experts
};

enum class Fault { none, unsummed_copies, summed_over_all };

Config with_experts(const std::string& style) {
  Config config = tiny(style);
  config.model.experts = 8;
  config.train.global_batch = 8;  // four grains
  return config;
}

bool is_expert(const Weight& weight) {
  return weight.param().shape().dims() == 3;
}

// A training by hand, each sum over ranks in sight.
class Rank {
 public:
  Rank(const Config& config, Group& world, Group& experts, Group& copies, Fault fault)
      : config_(config),
        world_(world),
        experts_(experts),
        copies_(copies),
        fault_(fault),
        exchange_(experts) {
    for (MoeLayer* layer : model_->moe_layers()) exchange_.split(*layer);
    model_->allocate(engine_.arena, parse_dtype(config.precision.compute), true);
    model_->initialize(config.train.seed);
    optimizer_ = make_optimizer({.name = config.optimizer.name}, model_->params());
    optimizer_->allocate(engine_.arena);
    for (Weight* weight : model_->weights())
      slots_.push_back(zeros(engine_.arena, weight->param().shape(), Dtype::f32, Category::gradients));
  }

  void step(int64_t step, LayoutRun& result, Gathering* first_gradients) {
    const int64_t num_grains = config_.train.global_batch / config_.train.micro_batch;
    ExpertLoads loads(model_->moe_layers(), num_grains);
    for (size_t i = 0; i < slots_.size(); ++i) {
      fill_zero(slots_[i]);
      model_->weights()[i]->set_grad(slots_[i]);
    }
    double sums[] = {0.0, 0.0};  // loss, tokens
    const auto [first, last] = grains_of_rank(num_grains, world_.size(), world_.rank());
    for (int64_t grain = first; grain < last; ++grain) {
      const Batch batch = make_batch(config_, step, grain);
      Tape tape({.seed = config_.train.seed,
                 .step = static_cast<uint64_t>(step),
                 .first_sequence = batch.first_index,
                 .record = true,
                 .dropout = true});
      const auto tensor = [&](const std::vector<int32_t>& ids) {
        return to_tensor(engine_.arena, ids, batch.num_sequences, batch.seq_len);
      };
      const Var loss = model_->loss(tape, tensor(batch.tokens), tensor(batch.targets),
                                    *parse_recompute(config_.parallel.recompute));
      for (const float value : to_floats(loss.value)) sums[0] += static_cast<double>(value), sums[1] += 1.0;
      tape.backward(loss);
      loads.take(grain);
    }
    world_.all_reduce(sums, 2, Dtype::f64, "loss").wait();
    loads.reduce(world_);
    double squares[] = {0.0, 0.0};  // of what is whole, of experts
    for (size_t i = 0; i < slots_.size(); ++i) {
      const bool local = is_expert(*model_->weights()[i]) && fault_ != Fault::summed_over_all;
      if (!local || fault_ != Fault::unsummed_copies)
        (local ? copies_ : world_)
            .all_reduce(slots_[i].data<float>(), slots_[i].numel(), Dtype::f32, "gradient")
            .wait();
      squares[is_expert(*model_->weights()[i])] +=
          kernels(slots_[i]).elementwise.sum_squares(*engine_.queue, slots_[i]);
    }
    experts_.all_reduce(&squares[1], 1, Dtype::f64, "norm").wait();
    const double norm = std::sqrt(squares[0] + squares[1]) / sums[1];
    const double clip = norm > 1.0 ? 1.0 / (norm + 1e-6) : 1.0;
    const auto grad_of = [&](Param& param) -> const Tensor& { return param.uses().front()->grad(); };
    if (first_gradients != nullptr)
      for (Weight* weight : model_->weights())
        first_gradients->put(weight->param(), to_floats(weight->grad()));
    optimizer_->step(grad_of, {.update = step, .lr = config_.optimizer.lr, .grad_scale = clip / sums[1]});
    loads.balance();
    if (world_.rank() != 0) return;
    result.losses.push_back(sums[0] / sums[1]);
    result.grad_norms.push_back(norm);
    loads_.push_back(*loads.summary());
  }

  void put_weights(Gathering& weights, Gathering& biases) const {
    for (const auto& param : model_->params())
      (param->is_state() ? biases : weights).put(*param, to_floats(param->master()));
  }
  const std::vector<ExpertLoad>& loads() const { return loads_; }

 private:
  const Config& config_;
  Group &world_, &experts_, &copies_;
  Fault fault_;
  Engine engine_;
  ExpertParallel exchange_;
  std::unique_ptr<Model> model_ = make_model(config_.model);
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<Tensor> slots_;
  std::vector<ExpertLoad> loads_;
};

struct ExpertRun : LayoutRun {
  WholeTensors biases;
  std::vector<ExpertLoad> loads;
};

ExpertRun run_experts(const Config& config, const Ranks& ranks, Fault fault = Fault::none) {
  GroupOptions options;
  options.timeout_ms = 60000;
  const auto world = make_thread_groups(ranks.dp, options);
  std::vector<std::vector<std::unique_ptr<Group>>> experts, copies;
  for (int i = 0; i < ranks.dp / ranks.ep; ++i) experts.push_back(make_thread_groups(ranks.ep, options));
  for (int i = 0; i < ranks.ep; ++i) copies.push_back(make_thread_groups(ranks.dp / ranks.ep, options));
  ExpertRun result;
  Gathering first_gradients, last_weights, biases;
  run_ranks(world, [&](Group& own) {
    const auto set = static_cast<size_t>(own.rank() / ranks.ep),
               place = static_cast<size_t>(own.rank() % ranks.ep);
    Group &expert_group = *experts[set][place], &copy_group = *copies[place][set];
    try {
      Rank rank(config, own, expert_group, copy_group, fault);
      for (int64_t step = 1; step <= config.train.steps; ++step)
        rank.step(step, result, step == 1 ? &first_gradients : nullptr);
      rank.put_weights(last_weights, biases);
      if (own.rank() == 0) result.loads = rank.loads();
    } catch (const Failure& error) {  // the others must not wait for this rank in a group of their own
      expert_group.abort(error.what());
      copy_group.abort(error.what());
      throw;
    }
  });
  result.first_gradients = first_gradients.whole(result.fault);
  result.last_weights = last_weights.whole(result.fault);
  result.biases = biases.whole(result.fault);
  return result;
}

struct Case {
  const char *style, *optimizer, *recompute;
  double capacity;
};

class ExpertParallelTest : public ::testing::TestWithParam<Case> {
 protected:
  ExpertParallelTest() {
    config_.optimizer.name = GetParam().optimizer;
    // AdamW turns the rounding of a gradient near zero into steps of full length.
    if (config_.optimizer.name == "adamw") config_.optimizer.lr = 1e-3;
    config_.parallel.recompute = GetParam().recompute;
    config_.model.capacity_factor = GetParam().capacity;
  }
  Config config_ = with_experts(GetParam().style);
};

TEST_P(ExpertParallelTest, ComputesWhatOneProcessComputes) {
  const ExpertRun one = run_experts(config_, {});
  ASSERT_EQ(one.fault, "");
  for (const Ranks& ranks : {Ranks{2, 2}, Ranks{4, 2}, Ranks{4, 4}, Ranks{4, 1}}) {
    SCOPED_TRACE(fmt::format("dp {}, ep {}", ranks.dp, ranks.ep));
    const ExpertRun many = run_experts(config_, ranks);
    for (size_t i = 0; i < one.loads.size(); ++i) {  // no routing flips here: exact counts
      EXPECT_EQ(many.loads[i].layers, one.loads[i].layers) << "step " << i + 1;
      EXPECT_EQ(many.loads[i].drop_share, one.loads[i].drop_share);
    }
    EXPECT_EQ(many.biases, one.biases);  // moved by exact counts
    const Difference difference = compare(many, one);
    EXPECT_LT(difference.worst, 1e-5) << difference.where;
    const Difference again = compare(many, run_experts(config_, ranks));
    EXPECT_EQ(again.worst, 0.0) << "two runs of one layout: " << again.where;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, ExpertParallelTest,
                         ::testing::Values(Case{"moe", "adamw", "none", 0.0}, Case{"moe", "sgd", "full", 0.7},
                                           Case{"moe_bias", "adamw", "selective", 0.0},
                                           Case{"moe_bias", "sgd", "none", 0.0}));

// The training by hand is the training that one process runs.
TEST(ExpertParallel, TheDefinitionIsTheTraining) {
  const Config config = with_experts("moe_bias");
  const ExpertRun by_hand = run_experts(config, {});
  const Outcome outcome = run(config, 1);
  EXPECT_NEAR(by_hand.losses[0], outcome.steps[0].loss, 1e-6);
  EXPECT_NEAR(by_hand.grad_norms[0], outcome.steps[0].grad_norm, 1e-5 * outcome.steps[0].grad_norm);
}

TEST(ExpertParallel, ForgottenAndSuperfluousSumsShow) {
  Config config = with_experts("moe");
  config.optimizer.name = "sgd";
  const ExpertRun one = run_experts(config, {});
  EXPECT_GT(compare(run_experts(config, {4, 2}, Fault::unsummed_copies), one).worst, 1e-3);
  EXPECT_GT(compare(run_experts(config, {4, 2}, Fault::summed_over_all), one).worst, 1e-3);
}

// A layer as the root of its own tree.
struct LayerAlone : Module {
  explicit LayerAlone(bool shared)
      : Module(nullptr, ""),
        moe(this, "moe",
            {.width = 6,
             .experts = 8,
             .expert_width = 5,
             .shared_width = shared ? 3 : 0,
             .route = {{.aux_loss = 0.1f}, 3, 0.0},
             .bias_rate = 0.0,
             .init_std = 0.5,
             .output_init_std = 0.5}) {}
  void allocate(Arena& arena) {
    for (const auto& param : params()) {
      param->allocate(arena, Dtype::f32, false);
      param->initialize(3);
    }
    for (Weight* weight : weights())
      weight->set_grad(zeros(arena, weight->param().shape(), Dtype::f32, Category::gradients));
  }
  MoeLayer moe;
};

// Forward and backward of the rows [first, last) of the same x and dy.
std::pair<std::vector<float>, std::vector<float>> pass(Engine& engine, const MoeLayer& moe, int64_t first,
                                                       int64_t last) {
  Tape tape(PassContext{.record = true});
  const Var x = tape.leaf(engine.random({1, 9, 6}, "x").view({9, 6}).slice(first, last));
  const Var y = moe(x);
  tape.backward(y, engine.random({9, 6}, "dy").slice(first, last));
  return {to_floats(y.value), to_floats(tape.grad(x))};
}

TEST(ExpertParallel, RanksMayHaveAnyNumberOfTokens) {
  for (const bool shared : {false, true})
    for (const std::vector<int64_t>& ends :
         {std::vector<int64_t>{5, 9}, {5, 5, 8, 9}, {0, 0, 0, 9}, {0, 0}}) {
      std::vector<std::pair<std::vector<float>, std::vector<float>>> expected;  // each rank's own pass, alone
      WholeTensors gradients;
      Engine engine;
      LayerAlone alone(shared);
      alone.allocate(engine.arena);
      for (size_t rank = 0; rank < ends.size(); ++rank)
        expected.push_back(pass(engine, alone.moe, rank == 0 ? 0 : ends[rank - 1], ends[rank]));
      const auto groups = make_thread_groups(static_cast<int>(ends.size()));
      Gathering gathered;
      run_ranks(groups, [&](Group& group) {
        Engine own;
        LayerAlone layer(shared);
        ExpertParallel exchange(group);
        exchange.split(layer.moe);
        layer.allocate(own.arena);
        const auto rank = static_cast<size_t>(group.rank());
        const auto [y, dx] = pass(own, layer.moe, rank == 0 ? 0 : ends[rank - 1], ends[rank]);
        ASSERT_EQ(y.size(), expected[rank].first.size());
        for (size_t i = 0; i < y.size(); ++i) {
          EXPECT_NEAR(y[i], expected[rank].first[i], 1e-5);
          EXPECT_NEAR(dx[i], expected[rank].second[i], 1e-5);
        }
        for (Weight* weight : layer.weights())
          if (is_expert(*weight)) gathered.put(weight->param(), to_floats(weight->grad()));
      });
      std::string fault;
      const WholeTensors whole = gathered.whole(fault);
      EXPECT_EQ(fault, "");
      for (Weight* weight : alone.weights()) {
        if (!is_expert(*weight)) continue;
        const std::vector<float> truth = to_floats(weight->grad());
        for (size_t i = 0; i < truth.size(); ++i)
          EXPECT_NEAR(whole.at(weight->param().name())[i], truth[i], 1e-5) << weight->param().name();
      }
    }
}

// Law 7: the plan has room for all rows of all ranks, whoever they choose.
TEST(ExpertParallel, TheNullDeviceCountsEveryRowOfEveryRank) {
  const auto null_queue = make_null_queue();
  Arena planned(*null_queue);
  const auto groups = make_thread_groups(2);
  LayerAlone layer(false);
  ExpertParallel exchange(*groups[0]);
  exchange.split(layer.moe);
  for (const auto& param : layer.params()) param->allocate(planned, Dtype::f32, false);
  Tape tape(PassContext{.record = true});
  const Tensor x = empty(planned, {9, 6}, Dtype::f32, Category::activations);
  Routing routing;
  routing.experts = empty(planned, {9, 3}, Dtype::i32, Category::activations);
  routing.counts.kept.assign(8, 0);
  const auto trip = exchange.plan(x, routing);
  EXPECT_EQ(trip->counts, (std::vector<int64_t>{18, 18, 18, 0}));
}

TEST(ExpertParallel, ExpertsThatDoNotDivideAreRefused) {
  Config config = with_experts("moe");
  config.model.experts = 6;
  try {
    run_experts(config, {4, 4});
    ADD_FAILURE() << "6 experts on 4 ranks";
  } catch (const Failure& error) {
    EXPECT_NE(std::string(error.what()).find("'blocks.0.moe' has 6 experts for 4 ranks"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace athanor
