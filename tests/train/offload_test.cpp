// Law 1 for offload: whatever is on disk, a training computes what it computes in memory. Law 5: checkpoints do not
// know where state was. Law 7: the plan counts the buffers in place of what is on disk.
#include <gtest/gtest.h>

#include <filesystem>

#include "athanor/engine/memory_plan.h"
#include "support/scratch_env.h"
#include "support/temporary_folder.h"
#include "support/tiers.h"
#include "train/role_of.h"
#include "train/small_training.h"

namespace athanor::tests::offload_test {
namespace {

// Matrices of several blocks of 256, so that ZeRO cuts them and 8 bits are used.
Config several_blocks(const std::string& family, const std::string& compute, const std::string& optimizer) {
  Config config = tiny(family);
  config.model.hidden_size = 48;
  config.model.intermediate_size = 100;
  config.model.head_dim = 12;
  config.precision.compute = compute;
  config.optimizer.name = optimizer;
  config.parallel.bucket_bytes = 32 << 10;
  config.train.runs = temporary_path("offload");
  return config;
}

Config optimizer_on_disk(Config config) {
  config.offload.optimizer = "disk";
  return config;
}

// All that can be.
Config all_on_disk(Config config) {
  config.offload.optimizer = config.offload.gradients = "disk";
  if (config.parallel.zero_stage == 3) config.offload.parameters = "disk";
  return config;
}

TEST(Offload, OfTheOptimizerChangesNoBit) {
  for (const char* family : {"llama", "gpt2", "moe_bias"})
    for (const char* compute : {"f32", "bf16", "f16"})
      for (const char* optimizer : {"adamw", "sgd"}) {
        const Config config = several_blocks(family, compute, optimizer);
        EXPECT_TRUE(same_bits(run(config, 1), run(optimizer_on_disk(config), 1)))
            << family << " " << compute << " " << optimizer;
      }
}

TEST(Offload, OfGradientsChangesNoBit) {
  for (const char* family : {"llama", "gpt2", "moe_bias"})
    for (const char* reduce : {"fast", "tree"})
      for (const char* optimizer : {"adamw", "sgd"}) {
        Config config = several_blocks(family, "bf16", optimizer);
        config.parallel.reduce = reduce;
        config.parallel.recompute = std::string(family) == "gpt2" ? "full" : "none";
        const Outcome memory = run(config, 1);
        config.offload.gradients = "disk";
        EXPECT_TRUE(same_bits(memory, run(config, 1))) << family << " " << reduce << " " << optimizer;
        EXPECT_TRUE(same_bits(memory, run(optimizer_on_disk(config), 1)))
            << family << " " << reduce << " " << optimizer;
      }
}

TEST(Offload, OfActivationsChangesNoBit) {
  for (const char* family : {"llama", "gpt2", "moe_bias"})
    for (const char* recompute : {"none", "selective", "full", "group:2", "full*1,selective"}) {
      Config config = several_blocks(family, "bf16", "adamw");
      config.parallel.recompute = recompute;
      config.model.dropout = 0.1;
      config.data.seq_len = config.model.max_position_embeddings = 96;  // tensors worth a transfer
      config.train.steps = 2;
      const Outcome memory = run(config, 1);
      config.offload.activations = "disk";
      EXPECT_TRUE(same_bits(memory, run(config, 1))) << family << " " << recompute;
      config.parallel.zero_stage = 3;
      config.parallel.reduce = "tree";
      EXPECT_TRUE(same_bits(run(config, 2), run(config, 1))) << family << " " << recompute;
    }
}

// Of one rank, too, which shares them with nobody.
TEST(Offload, OfParametersChangesNoBit) {
  const struct {
    const char *family, *compute, *optimizer;
    int ranks;
  } cases[] = {{"llama", "f32", "adamw", 1}, {"llama", "bf16", "sgd", 3},      {"gpt2", "bf16", "adamw", 1},
               {"gpt2", "f32", "sgd", 3},    {"moe_bias", "bf16", "adamw", 3}, {"moe_bias", "f32", "sgd", 1}};
  for (const auto& each : cases) {
    Config config = several_blocks(each.family, each.compute, each.optimizer);
    config.parallel.zero_stage = 3;
    const Outcome memory = run(config, each.ranks);
    config.offload.parameters = "disk";
    EXPECT_TRUE(same_bits(memory, run(config, each.ranks))) << each.family << " " << each.compute;
    EXPECT_TRUE(same_bits(memory, run(all_on_disk(config), each.ranks)))
        << "all: " << each.family << " " << each.compute;
  }
}

TEST(Offload, ChangesNoBitInAnyStageOfZero) {
  const std::pair<const char*, const char*> cases[] = {{"f32", "adamw"}, {"8bit", "adamw"}, {"8bit", "sgd"}};
  for (size_t i = 0; i < std::size(cases); ++i) {
    const auto& [state, optimizer] = cases[i];
    Config config = several_blocks("gpt2", "bf16", optimizer);
    config.optimizer.state = state;
    config.parallel.reduce = "tree";
    const Outcome one = run(config, 1);
    for (const int zero : {0, 1, 2, 3}) {
      const int ranks = 2 + (zero + static_cast<int>(i)) % 2;  // each stage has two and three
      config.parallel.zero_stage = zero;
      EXPECT_TRUE(same_bits(one, run(config, ranks)))
          << state << " in memory, zero " << zero << " of " << ranks;
      EXPECT_TRUE(same_bits(one, run(optimizer_on_disk(config), ranks)))
          << state << " on disk, zero " << zero << " of " << ranks;
      EXPECT_TRUE(same_bits(one, run(all_on_disk(config), ranks)))
          << state << " all on disk, zero " << zero << " of " << ranks;
    }
  }
}

TEST(Offload, EightBitStateIsAnotherOneAndNear) {
  Config config = several_blocks("llama", "f32", "adamw");
  config.train.steps = 20;
  const Outcome exact = run(config, 1);
  config.optimizer.state = "8bit";
  const Outcome coded = run(config, 1);
  EXPECT_FALSE(same_bits(exact, coded));
  EXPECT_NEAR(coded.steps.back().loss / exact.steps.back().loss, 1.0, 0.02);
  EXPECT_LT(exact.steps.back().loss, 0.9 * exact.steps.front().loss);  // it does learn
}

// Steps first+1 .. last, from a checkpoint where there is one, and the digest of what it saves in the end.
std::string train_with_offload(const Config& config, int ranks, const std::string& from,
                               const std::string& to, int64_t last) {
  run_ranks(make_thread_worlds(ranks), [&](World& world) {
    Group& group = world.all();
    Engine engine;
    TrainingRank rank(config, world, engine.arena);
    Training& training = rank.training;
    training.allocate();
    TrainState state = first_state(config);
    if (from.empty()) {
      training.model->initialize(config.train.seed);
    } else {
      const Checkpoint checkpoint = Checkpoint::open(system_env(), from);
      training.load(checkpoint);
      state = TrainState::from_json(checkpoint.state());
    }
    parallel_of(training).publish();
    Batch batch;
    while (state.step < last) {
      const int64_t step = state.step + 1;
      const std::vector<int64_t> micro_batches = training.own_micro_batches();
      auto micro_batch = micro_batches.begin();
      training.role->step(state, [&]() -> const Batch& {
        batch = make_batch(config, step, *micro_batch++);
        return batch;
      });
    }
    write_checkpoint_at(
        system_env(), group, to,
        {.step = state.step, .state = state.to_json(), .tensors = training.tensors(), .files = {}});
  });
  return Checkpoint::open(system_env(), to).digest();
}

TEST(Offload, ACheckpointDoesNotKnowWhereStateWas) {
  const std::string folder = temporary_path("offload_checkpoints");
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  for (const char* state : {"f32", "8bit"}) {
    Config memory = several_blocks("gpt2", "bf16", "adamw");
    memory.optimizer.state = state;
    memory.parallel.reduce = "tree";
    Config disk = optimizer_on_disk(memory);
    disk.parallel.zero_stage = 2;
    const std::string name = folder + "/" + state;
    const std::string expected = train_with_offload(memory, 1, "", name + "_through", 4);
    EXPECT_EQ(train_with_offload(memory, 1, "", name + "_memory", 2),
              train_with_offload(disk, 3, "", name + "_disk", 2));
    EXPECT_EQ(train_with_offload(disk, 3, name + "_memory", name + "_a", 4), expected) << state;
    EXPECT_EQ(train_with_offload(memory, 1, name + "_disk", name + "_b", 4), expected) << state;
    EXPECT_EQ(train_with_offload(disk, 1, name + "_disk", name + "_c", 4), expected) << state;
  }
}

TEST(Offload, ThePlanCountsTheBuffersInItsPlace) {
  LEAVE_OUT_UNDER(any_sanitizer, "it counts bytes, which are the same");
  for (const char* compute : {"f32", "bf16"})
    for (const char* state : {"f32", "8bit"})
      for (const std::string place : {"memory", "disk", "all on disk"})
        for (const int zero : {0, 2, 3}) {
          Config config = several_blocks("llama", compute, "adamw");
          config.optimizer.state = state;
          config.parallel.zero_stage = zero;
          if (place == "disk") config = optimizer_on_disk(config);
          if (place == "all on disk") config = all_on_disk(config);
          const int ranks = zero == 0 ? 1 : 2;
          run_ranks(make_thread_worlds(ranks), [&](World& world) {
            const Group& group = world.all();
            Engine engine;
            TrainingRank of_world(config, world, engine.arena);
            Training& training = of_world.training;
            training.allocate();
            TrainState training_state = first_state(config);
            Batch batch;
            for (int64_t step = 1; step <= 2; ++step) {
              const std::vector<int64_t> micro_batches = training.own_micro_batches();
              auto micro_batch = micro_batches.begin();
              training.role->step(training_state, [&]() -> const Batch& {
                batch = make_batch(config, step, *micro_batch++);
                return batch;
              });
            }
            const MemoryPlan plan = plan_memory({config, 2, group.rank(), ranks});
            const MemoryUsage measured = engine.arena.usage();
            EXPECT_EQ(plan.usage.peak, measured.peak) << compute << " " << state << " " << place;
            EXPECT_EQ(plan.usage.peak_total, measured.peak_total) << compute << " " << state << " " << place;
            const uint64_t optimizer = measured.peak[static_cast<size_t>(Category::optimizer)];
            EXPECT_EQ(optimizer == 0, config.offload.optimizer == "disk");
          });
        }
}

// Peaks, by what is on disk: of the category that it is about less, and as planned.
TEST(Offload, OfGradientsAndActivationsTakesLessAndAsPlanned) {
  Config config = several_blocks("llama", "bf16", "adamw");
  config.model.num_hidden_layers = 6;
  config.data.seq_len = config.model.max_position_embeddings = 96;
  config.train.steps = 2;
  const auto peak = [&](Category category) {
    MemoryUsage usage;
    run(config, 1, 1, [&](const Training& training) { usage = training.arena.usage(); });
    const MemoryPlan plan = plan_memory({config, 2});
    EXPECT_EQ(plan.usage.peak, usage.peak);
    EXPECT_EQ(plan.usage.peak_total, usage.peak_total);
    return static_cast<double>(usage.peak[static_cast<size_t>(category)]);
  };
  const double gradients = peak(Category::gradients), activations = peak(Category::activations);
  config.offload.gradients = "disk";
  EXPECT_LT(peak(Category::gradients), 0.7 * gradients);
  config.offload.gradients = "memory";
  config.offload.activations = "disk";
  EXPECT_LT(peak(Category::activations), 0.7 * activations);
}

// Of ranks that share what they have: shards and values go too.
TEST(Offload, OfSharesTakesLess) {
  Config config = several_blocks("llama", "bf16", "adamw");
  config.model.num_hidden_layers = 16;
  config.parallel.bucket_bytes = 1 << 20;  // rows are long beside the blocks of the file
  config.parallel.zero_stage = 3;
  config.train.steps = 2;
  const auto peaks = [&] {
    std::array<uint64_t, kNumCategories> of_first{};
    run_ranks(make_thread_worlds(2), [&](World& world) {
      const Group& group = world.all();
      Engine engine;
      TrainingRank rank(config, world, engine.arena);
      Training& training = rank.training;
      training.allocate();
      training.model->initialize(1);
      TrainState state = first_state(config);
      Batch batch;
      const std::vector<int64_t> micro_batches = training.own_micro_batches();
      auto micro_batch = micro_batches.begin();
      training.role->step(state, [&]() -> const Batch& {
        batch = make_batch(config, 1, *micro_batch++);
        return batch;
      });
      if (group.rank() == 0) of_first = engine.arena.usage().peak;
    });
    return of_first;
  };
  const auto memory = peaks();
  config = all_on_disk(config);
  const auto disk = peaks();
  for (const Category category : {Category::parameters, Category::gradients}) {
    const auto c = static_cast<size_t>(category);
    EXPECT_LT(static_cast<double>(disk[c]), 0.5 * static_cast<double>(memory[c])) << name_of(category);
  }
}

TEST(Offload, NamesWhatADiskSpoilsAndLeavesNothing) {
  const Config config = optimizer_on_disk(several_blocks("llama", "bf16", "adamw"));
  ScratchEnv env;
  Engine engine;
  const auto world = make_single_world();
  TrainingRank rank(config, *world, engine.arena);
  Training& training = rank.training;
  training.allocate(env);
  training.model->initialize(1);
  TrainState state = first_state(config);
  Batch batch;
  const auto step = [&] {
    int64_t micro_batch = 0;
    training.role->step(state, [&]() -> const Batch& {
      batch = make_batch(config, state.step + 1, micro_batch++);
      return batch;
    });
  };
  step();
  env.faults.flip_write = env.faults.writes;  // of the next update, the first
  step();
  try {
    step();
    FAIL();
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("the optimizer's state: adam.m of '"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(state.step, 2);  // not committed
  EXPECT_TRUE(std::filesystem::is_empty(config.train.runs + "/" + config.train.name));
}

}  // namespace
}  // namespace athanor::tests::offload_test
