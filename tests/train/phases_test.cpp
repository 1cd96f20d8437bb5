// Phases of a run: each segment starts from a snapshot of the one before, and the whole is, to the bit, the chain of runs
// that does the phases one by one.
#include <gmock/gmock.h>

#include <atomic>
#include <csignal>
#include <filesystem>

#include "athanor/base/error.h"
#include "athanor/models/load.h"
#include "support/engine.h"
#include "train/whole_run.h"

namespace athanor::tests::phases_test {
namespace {

using ::testing::HasSubstr;

// Longer sequences with another base and scaling of RoPE and a larger batch, then one channel with another schedule.
void add_phases(Config& config) {
  config.model.max_position_embeddings = 12;
  config.model.dropout = 0.1;
  config.parallel.reduce = "tree";
  config.phases = {{.name = "short", .steps = 3},
                   {.name = "long context",
                    .steps = 2,
                    .settings = {{"data.seq_len", int64_t{12}},
                                 {"model.rope_theta", 1e5},
                                 {"model.rope_scaling", std::string("yarn")},
                                 {"model.rope_factor", 2.0},
                                 {"model.rope_attention_factor", 1.5},
                                 {"train.global_batch_size", int64_t{7}}}},
                   {.name = "anneal",
                    .steps = 3,
                    .settings = {{"data.channels", std::vector<ChannelConfig>{config.data.channels[1]}},
                                 {"schedule.decay", std::string("linear")},
                                 {"schedule.warmup_steps", int64_t{0}},
                                 {"optimizer.betas", std::vector<double>{0.8, 0.9}}}}};
  config.train.steps = 8;
  config = parse_config(print_config(config), "run.toml");
}

struct Phased : WholeRun {
  explicit Phased(int num_ranks = 1) : WholeRun(num_ranks) { add_phases(config); }
};

// The same phases, each as a run of its own.
History by_hand(Phased& run) {
  History all;
  std::string from;
  for (const Phase& phase : run.config.phases) {
    run.config.train.name = "only " + phase.name;
    run.train(system_env(), [&](const Config& config, World& world, TrainIo& io) {
      io.phase = phase.name;
      io.from = from;
      return train(config, world, io);
    });
    const History part = run.history();
    EXPECT_EQ(std::ssize(part.steps), phase.steps) << phase.name;
    all.steps.insert(all.steps.end(), part.steps.begin(), part.steps.end());
    all.digest = part.digest;
    from = RunFolder(run.config).path;
  }
  return all;
}

class Ranks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Phases, Ranks, testing::Values(1, 2, 3));

TEST_P(Ranks, AreTheChainMadeByHand) {
  Phased run(GetParam());
  const TrainReport report = run.train(system_env());
  EXPECT_EQ(report.status, "finished");
  const History whole = run.history();
  ASSERT_EQ(whole.steps.size(), 8u);
  const std::vector<StepMetrics> metrics = run.metrics();
  ASSERT_EQ(report.phases.size(), 3u);
  for (const PhaseLosses& phase : report.phases) {
    const StepMetrics& last = metrics.at(static_cast<size_t>(phase.last_step - 1));
    EXPECT_EQ(phase.train_loss, last.loss);
    EXPECT_EQ(phase.valid_loss, last.valid_loss);
    EXPECT_EQ(phase.channel_loss, last.valid_channel_loss);
  }
  EXPECT_EQ(report.phases[1].name, "long context");
  EXPECT_EQ(report.phases[2].channel_loss.size(), 1u);
  EXPECT_EQ(by_hand(run), whole);
  Phased alone;
  alone.train(system_env());
  EXPECT_EQ(whole, alone.history());
}

// What is made of a checkpoint reads positions as the phase of its step did.
TEST(Phases, ACheckpointHasTheRotationsOfItsPhase) {
  Phased run;
  run.config.checkpoint.every_steps = 1;
  run.config.checkpoint.keep = 0;
  run.train(system_env());
  Engine engine;
  for (int64_t step = 1; step <= 8; ++step) {
    const std::string path =
        join_path(RunFolder(run.config).file("checkpoints"), checkpoint::checkpoint_name(step));
    const auto loaded = models::load_model(system_env(), path, engine.arena, std::nullopt);
    const bool is_long = step == 4 || step == 5;
    EXPECT_EQ(loaded.config.model.rope_theta, is_long ? 1e5 : 1e4) << step;
    EXPECT_EQ(loaded.config.model.rope_scaling, is_long ? "yarn" : "none") << step;
  }
}

// Each setting of a phase shows in the first loss or in the weights after it.
TEST(Phases, EachSettingOfAPhaseCounts) {
  Phased run;
  run.train(system_env());
  const History whole = run.history();
  for (const char* setting :
       {"data.seq_len", "model.rope_theta", "model.rope_attention_factor", "train.global_batch_size"}) {
    Phased other;
    other.config.phases[1].settings.erase(setting);
    other.train(system_env());
    const History got = other.history();
    EXPECT_TRUE(std::equal(got.steps.begin(), got.steps.begin() + 3, whole.steps.begin())) << setting;
    EXPECT_NE(got.steps[3], whole.steps[3]) << setting;
  }
  for (const char* setting : {"data.channels", "optimizer.betas", "schedule.decay"}) {
    Phased other;
    other.config.phases[2].settings.erase(setting);
    other.train(system_env());
    const History got = other.history();
    EXPECT_TRUE(std::equal(got.steps.begin(), got.steps.begin() + 5, whole.steps.begin())) << setting;
    EXPECT_NE(got.digest, whole.digest) << setting;
  }
}

// A phase may have another layout; with the tree the order of sums is kept, and so are the bits.
TEST(Phases, ChangeTheLayout) {
  Phased run(2);
  run.train(system_env());
  Phased other(2);
  other.config.parallel.zero_stage = 1;
  other.config.phases[1].settings["parallel.zero_stage"] = int64_t{3};
  other.config.phases[2].settings["parallel.pp"] = int64_t{2};
  other.config.phases[2].settings["parallel.zero_stage"] = int64_t{0};
  other.config.model.num_hidden_layers = run.config.model.num_hidden_layers = 2;
  run.config.train.name = "two layers";
  run.train(system_env());
  other.train(system_env());
  EXPECT_EQ(other.history(), run.history());
}

TEST(Phases, StopsAndGoesOnBetweenAndWithinThem) {
  Phased run(2);
  run.train(system_env());
  const History whole = run.history();
  for (const int64_t stop_at : {1, 2, 3, 4, 5, 6, 7}) {
    Phased again(2);
    std::atomic<int> stop = 0;
    const auto train_to = [&](const Config& config, World& world, TrainIo& io) {
      io.stop = &stop;
      io.clock = [&] {
        const std::string file = again.file("metrics.jsonl");
        if (world.rank() == 0 && system_env().exists(file) &&
            std::ssize(read_metrics(system_env(), file)) + 1 >= stop_at)
          stop = SIGTERM;
        return 0.0;
      };
      return train(config, world, io);
    };
    EXPECT_EQ(again.train(system_env(), train_to).status, "interrupted");
    stop = 0;
    EXPECT_EQ(again.train(system_env()).status, "finished");
    EXPECT_EQ(again.history(), whole) << stop_at;
  }
}

TEST(Phases, TheirMemoryIsPlannedToTheByte) {
  for (const int ranks : {1, 2}) {
    Phased run(ranks);
    const TrainReport report = run.train(system_env());
    EXPECT_EQ(report.planned_bytes, report.peak_bytes);
  }
}

std::string refusal(const Phased& run, const std::string& phase = "", const std::string& from = "") {
  try {
    run.train(system_env(), [&](const Config& config, World& world, TrainIo& io) {
      io.phase = phase;
      io.from = from;
      return train(config, world, io);
    });
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Phases, PastOnesMayNotChangeAndLaterOnesMay) {
  Phased run;
  run.config.checkpoint.keep = 0;
  run.train(system_env());
  for (int64_t step = 5; step <= 8; ++step)  // what remains is that of step 4, in the second phase
    std::filesystem::remove_all(join_path(run.file("checkpoints"), checkpoint_name(step)));
  const auto changed = [&](size_t phase, const std::string& key, const SettingValue& value) {
    const Config before = run.config;
    run.config.phases[phase].settings[key] = value;
    std::string text = refusal(run);
    run.config = before;
    return text;
  };
  EXPECT_THAT(
      changed(0, "data.seq_len", int64_t{5}),
      HasSubstr(
          "data.seq_len: changed since the run 't' was started: phase 'short' is done: got 5, expected 6"));
  EXPECT_THAT(changed(1, "train.global_batch_size", int64_t{6}),
              HasSubstr("phase 'long context' has begun: got 6"));
  const Config before = run.config;
  run.config.phases[0].steps = 4;
  run.config.train.steps = 9;
  EXPECT_THAT(refusal(run), HasSubstr("phase 'short' is done: got steps 1 to 4, expected steps 1 to 3"));
  run.config = before;
  run.config.phases[0].name = "brief";
  EXPECT_THAT(refusal(run), HasSubstr("'brief' in its place, expected 'short'"));
  run.config = before;
  run.config.phases.clear();
  EXPECT_THAT(refusal(run), HasSubstr("phase 'short' is done"));
  run.config = before;
  EXPECT_EQ(changed(2, "optimizer.weight_decay", 0.0), "");
}

TEST(Phases, WhatOneOfThemCannotDoIsRefusedBeforeTheFirstStep) {
  Phased run(2);
  run.config.phases[2].settings["parallel.pp"] = int64_t{2};  // of a model of one layer
  EXPECT_THAT(refusal(run), HasSubstr("phase 'anneal': parallel.pp: got 2"));
  run.config.phases[2].settings = {{"parallel.recompute_budget", int64_t{100'000}}};
  EXPECT_THAT(refusal(run), HasSubstr("phase 'anneal': parallel.recompute_budget: got 97.7 KiB"));
  EXPECT_FALSE(system_env().exists(RunFolder(run.config).path));
}

TEST(Phases, TheCommandOfAChainIsChecked) {
  Phased run;
  EXPECT_THAT(refusal(run, "wide"),
              HasSubstr("--phase: got 'wide', expected one of 'short', 'long context', 'anneal'"));
  EXPECT_THAT(refusal(run, "anneal"),
              HasSubstr("--phase: got 'anneal' without --from, which begins after step 5"));
  EXPECT_THAT(refusal(run, "anneal", run.folder.path("nothing")), HasSubstr("--from: got '"));
  run.train(system_env());
  const std::string from = RunFolder(run.config).path;
  run.config.train.name = "other";
  run.config.model.intermediate_size = 32;
  EXPECT_THAT(refusal(run, "anneal", from), HasSubstr("model.intermediate_size: --from '"));
  EXPECT_FALSE(system_env().exists(RunFolder(run.config).path));
}

}  // namespace
}  // namespace athanor::tests::phases_test
