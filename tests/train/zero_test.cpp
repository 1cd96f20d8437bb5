// Law 1 and law 5 for ZeRO: every stage on any number of ranks computes what one process computes.
#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>

#include "train/small_training.h"

namespace athanor {
namespace {

struct Case {
  const char* family;
  const char* compute;
  double dropout;
  const char* optimizer;
  const char* recompute;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.family << " " << c.compute << " " << c.optimizer << " " << c.recompute
       << (c.dropout > 0 ? " dropout" : "");
}

// Matrices of several norm blocks, so that parameters are cut.
Config wide(const Case& c) {
  Config config = tiny(c.family);
  config.model.width = 48;
  config.model.ffn_width = 100;
  config.model.head_dim = 12;
  config.precision.compute = c.compute;
  config.model.dropout = c.dropout;
  config.optimizer.name = c.optimizer;
  config.parallel.recompute = c.recompute;
  config.parallel.bucket_bytes = 32 << 10;
  return config;
}

class ZeroTest : public ::testing::TestWithParam<Case> {};

TEST_P(ZeroTest, TreeReductionGivesTheBitsOfOneProcess) {
  Config config = wide(GetParam());
  config.parallel.reduce = "tree";
  const Outcome one = run(config, 1);
  for (const int stage : {1, 2, 3})
    for (const int ranks : {2, 3, 4, 5}) {
      config.parallel.zero = stage;
      EXPECT_TRUE(same_bits(one, run(config, ranks))) << "zero " << stage << ", " << ranks << " ranks";
    }
}

TEST_P(ZeroTest, FastReductionGivesTheBitsOfItsOrder) {
  Config config = wide(GetParam());
  const auto stage = [&config](int zero, int ranks) {
    config.parallel.zero = zero;
    return run(config, ranks);
  };
  for (const int ranks : {2, 3, 4}) {  // five grains: uneven
    EXPECT_TRUE(same_bits(stage(0, ranks), stage(1, ranks))) << ranks;
    EXPECT_TRUE(same_bits(stage(2, ranks), stage(3, ranks))) << ranks;
  }
  const Outcome whole = stage(0, 5);  // one grain a rank: one order
  for (const int zero : {1, 2, 3}) EXPECT_TRUE(same_bits(whole, stage(zero, 5))) << zero;
  const Outcome one = stage(0, 1), many = stage(2, 2);
  const double tolerance = std::string(GetParam().compute) == "f32" ? 1e-5 : 5e-2;
  for (size_t i = 0; i < one.steps.size(); ++i) {
    EXPECT_NEAR(many.steps[i].loss, one.steps[i].loss, tolerance * one.steps[i].loss);
    EXPECT_NEAR(many.steps[i].grad_norm, one.steps[i].grad_norm, tolerance * one.steps[i].grad_norm);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ZeroTest,
                         ::testing::Values(Case{"llama", "f32", 0.0, "adamw", "none"},
                                           Case{"llama", "bf16", 0.1, "sgd", "full"},
                                           Case{"gpt2", "f32", 0.1, "sgd", "none"},
                                           Case{"gpt2", "bf16", 0.0, "adamw", "selective"},
                                           Case{"gpt2", "f16", 0.1, "adamw", "group:2"}));

// Two steps of every training of a chain, each from the checkpoint of the one before.
struct Link {
  int ranks, zero;
};

std::string digest_after(Config config, const std::vector<Link>& chain) {
  config.train.steps = static_cast<int64_t>(2 * chain.size());
  const std::string folder = ::testing::TempDir() + "zero_chain";
  std::filesystem::remove_all(folder);
  TrainState state = first_state(config);
  for (const Link& link : chain) {
    config.parallel.zero = link.zero;
    const TrainState before = state;
    const auto groups = make_thread_groups(link.ranks);
    run_ranks(groups, [&](Group& group) {
      Engine engine;
      Training training(config, 2, group, engine.arena, nullptr, nullptr);
      training.allocate();
      TrainState mine = before;
      if (mine.step == 0) {
        training.model->initialize(config.train.seed);
      } else {
        training.load(Checkpoint::open(system_env(), folder + "/" + std::to_string(mine.step)));
      }
      training.parallel->publish();
      Batch batch;
      for (int step = 0; step < 2; ++step) {
        const std::vector<int64_t> grains = training.parallel->grains_of_step(training.num_grains);
        auto grain = grains.begin();
        const int64_t number = mine.step + 1;
        training.runner->run(mine, [&]() -> const Batch& {
          batch = make_batch(config, number, *grain++);
          return batch;
        });
      }
      write_checkpoint_at(
          system_env(), group, folder + "/" + std::to_string(mine.step),
          {.step = mine.step, .state = mine.to_json(), .tensors = training.tensors(), .files = {}});
      if (group.rank() == 0) state = mine;
    });
  }
  const Checkpoint last = Checkpoint::open(system_env(), folder + "/" + std::to_string(state.step));
  last.verify();
  return last.digest();
}

TEST(ZeroCheckpoint, AnyStageOnAnyRanksResumesAnyOther) {
  for (const char* family : {"llama", "gpt2"})
    for (const char* compute : {"f32", "bf16"}) {
      Config config = wide({family, compute, 0.1, "adamw", "none"});
      config.parallel.reduce = "tree";
      const std::string one = digest_after(config, {{1, 0}, {1, 0}, {1, 0}, {1, 0}});
      EXPECT_EQ(one, digest_after(config, {{4, 3}, {1, 0}, {3, 2}, {4, 3}})) << family << compute;
      EXPECT_EQ(one, digest_after(config, {{2, 1}, {5, 3}, {2, 3}, {3, 1}})) << family << compute;
    }
}

}  // namespace
}  // namespace athanor
