// Each axis with something done wrong beside one process: what verify compares must show it. Faults of tables are in
// tensor_parallel_test.cpp (tp, sp), of whole groups in expert_parallel_test.cpp (sums of experts), layouts_test.cpp (tied
// tables) and hybrid_test.cpp; those of definitions of their own in compression_test.cpp and two_speed_test.cpp.
#include <gtest/gtest.h>

#include <mutex>

#include "train/faulty_group.h"
#include "train/layout_run.h"

namespace athanor::tests::faults_test {
namespace {

Config small(const std::string& family, const std::string& optimizer) {
  Config config = tiny(family);
  config.precision.compute = "f32";
  config.optimizer.name = optimizer;
  config.optimizer.lr = optimizer == "sgd" ? 1e-1 : 3e-4;
  config.train.global_batch_size = 8;  // four micro-batches
  return config;
}

// The faulty groups of all ranks of a run: they outlive it.
class Faults {
 public:
  explicit Faults(GroupFault fault) : fault_(std::move(fault)) {}
  FaultyGroup& over(Group& real) {
    const std::scoped_lock lock(mutex_);
    return groups_.emplace_back(real, fault_);
  }

 private:
  GroupFault fault_;
  std::mutex mutex_;
  std::list<FaultyGroup> groups_;
};

// Where a layout gets its faulty group.
using Plant = std::function<LayoutHooks(Faults&)>;

// The layout is equal to one process but for the fault.
void expect_caught(const Config& config, const Plant& plant,
                   const std::vector<std::pair<const char*, GroupFault>>& faults) {
  const VerifyRun one = run_layout(one_process(config));
  Faults none({.call = "no such call"});
  EXPECT_LE(compare(run_layout(config, plant(none)), one).worst(), kTolerance) << "without a fault";
  for (const auto& [what, fault] : faults) {
    Faults planted(fault);
    EXPECT_TRUE(is_caught(config, one, plant(planted), 10 * kTolerance))
        << what << " went unseen with " << config.optimizer.name;
  }
}

const char* const kOptimizers[] = {"sgd", "adamw"};

LayoutHooks data_of(Faults& faults) {
  return {.groups = [&](Groups& groups) {
    FaultyGroup* faulty = &faults.over(*groups.data);
    for (Group** group : {&groups.data, &groups.losses, &groups.dense.sum, &groups.dense.shard})
      *group = faulty;
  }};
}

TEST(PlantedFaults, DataParallel) {
  for (const char* optimizer : kOptimizers)
    for (const char* reduce : {"fast", "tree"}) {
      Config config = small("llama", optimizer);
      config.parallel.dp = 4;
      config.parallel.reduce = reduce;
      expect_caught(config, data_of,
                    {{"a forgotten reduction", {.call = "gradients", .skipped = true}},
                     {"a forgotten bucket", {.call = "gradients 0", .skipped = true}},
                     {"losses of one rank's micro-batches", {.call = "losses", .skipped = true}}});
    }
}

TEST(PlantedFaults, ShardsOfZero) {
  for (const char* optimizer : kOptimizers)
    for (const int zero : {1, 2, 3}) {
      Config config = small("llama", optimizer);
      config.model.hidden_size = 48;  // several norm blocks: parameters are cut
      config.model.head_dim = 12;
      config.parallel.dp = 2;
      config.parallel.zero_stage = zero;
      expect_caught(config, data_of,
                    {{"gradients one element off", {.call = "gradients", .change = rotated_by(1)}},
                     {"values one element off", {.call = "parameters", .change = rotated_by(1)}},
                     {"values of the other rank", {.call = "parameters", .change = halves_swapped}},
                     {"a norm of one shard", {.call = "norm", .skipped = true}}});
    }
}

Plant sequences_shared() {
  return [](Faults& faults) {
    return LayoutHooks{.groups = [&](Groups& groups) { groups.context = &faults.over(*groups.context); }};
  };
}

Config in_context(const char* kind, const char* optimizer) {
  Config config = small("gpt2", optimizer);
  config.parallel.cp = 2;
  config.parallel.cp_method = kind;
  return config;
}

// The sums over the tokens of all ranks are those of data parallelism.
const std::vector<std::pair<const char*, GroupFault>> kForgottenSums = {
    {"gradients of one rank's tokens", {.call = "gradients", .skipped = true}},
    {"gradients of one bucket", {.call = "gradients 0", .skipped = true}},
    {"losses of one rank's tokens", {.call = "losses", .skipped = true}}};

TEST(PlantedFaults, RingAttention) {
  for (const char* optimizer : kOptimizers) {
    const Config config = in_context("ring", optimizer);
    expect_caught(config, data_of, kForgottenSums);
    expect_caught(
        config, sequences_shared(),
        {{"keys of nobody", {.call = "ring keys and values", .change = zeroed}},
         {"keys one token off", {.call = "ring keys", .change = rotated_by(24)}},
         {"gradients of keys that do not come home", {.call = "ring gradients", .change = zeroed}}});
    // The chunks of the other rank, attended to as if they were the own ones.
    Faults none({.call = "no such call"});
    const LayoutHooks other_chunks{
        .groups =
            [&](Groups& groups) {
              FaultyGroup& group = none.over(*groups.context);
              group.pretend(1 - group.rank());
              groups.context = &group;
            },
        .begin = [](Training& training, TrainState&,
                    World&) { static_cast<FaultyGroup*>(training.groups().context)->be_oneself(); }};
    EXPECT_TRUE(is_caught(config, run_layout(one_process(config)), other_chunks, 10 * kTolerance));
  }
}

// A chunk whose keys the later ones do not see, as a ring that leaves out a step has it.
TEST(PlantedFaults, AChunkOfKeysIsSkipped) {
  for (const char* optimizer : kOptimizers) {
    const Config config = in_context("ring", optimizer);
    const VerifyRun one = run_layout(one_process(config));
    const auto run_skipping = [&](int64_t first_tokens) {
      return run_layout(
          config, 2,
          [&](int64_t step, int64_t micro_batch, Batch& batch) {
            batch = make_batch(config, step, micro_batch);
            for (int64_t i = 0; i < std::ssize(batch.tokens); ++i)
              batch.document_starts.push_back(
                  static_cast<int32_t>(i % batch.seq_len < first_tokens ? 0 : first_tokens));
          },
          config.train.steps, 2);
    };
    EXPECT_LE(compare(run_skipping(0), one).worst(), kTolerance) << "nothing is left out";
    EXPECT_GT(compare(run_skipping(3), one).worst(), 10 * kTolerance) << "the first of four chunks is";
  }
}

TEST(PlantedFaults, UlyssesAttention) {
  for (const char* optimizer : kOptimizers) {
    expect_caught(in_context("ulysses", optimizer), data_of, kForgottenSums);
    expect_caught(in_context("ulysses", optimizer), sequences_shared(),
                  {{"heads back in the wrong order", {.call = "heads to tokens", .change = halves_swapped}},
                   {"tokens in the wrong order", {.call = "tokens to heads", .change = halves_swapped}}});
  }
}

TEST(PlantedFaults, ExpertParallel) {
  for (const char* optimizer : kOptimizers) {
    Config config = small("moe_bias", optimizer);
    config.model.num_experts = 8;
    config.parallel.dp = 4;
    config.parallel.ep = 2;
    const auto width = static_cast<size_t>(config.model.hidden_size);
    expect_caught(
        config,
        [](Faults& faults) {
          return LayoutHooks{
              .groups = [&](Groups& groups) { groups.experts = &faults.over(*groups.experts); }};
        },
        {{"results combined in the wrong order", {.call = "rows from experts", .change = rotated_by(width)}},
         {"rows that reach another expert", {.call = "rows to experts", .change = rotated_by(width)}},
         {"a norm of one rank's experts", {.call = "norms of experts", .skipped = true}}});
    expect_caught(config,
                  [](Faults& faults) {
                    return LayoutHooks{.groups = [&](Groups& groups) {
                      groups.expert.sum = groups.expert.shard = &faults.over(*groups.expert.sum);
                    }};
                  },
                  {{"gradients of experts that are not summed", {.call = "gradients", .skipped = true}}});
  }
}

// What a stage sends for a micro-batch is that of the one before; the first is right.
GroupFault one_late(const char* call) {
  return {.call = call,
          .change = [last = std::vector<std::byte>()](std::span<std::byte> data, size_t) mutable {
            const std::vector<std::byte> now(data.begin(), data.end());
            if (last.size() == now.size()) std::ranges::copy(last, data.begin());
            last = now;
          }};
}

TEST(PlantedFaults, PipelineParallel) {
  for (const char* optimizer : kOptimizers)
    for (const char* schedule : {"1f1b", "zb-h1"}) {
      Config config = small("llama", optimizer);
      config.parallel.pp = 2;
      config.parallel.schedule = schedule;
      expect_caught(config,
                    [](Faults& faults) {
                      return LayoutHooks{.groups = [&](Groups& groups) {
                        groups.pipeline = &faults.over(*groups.pipeline);
                      }};
                    },
                    {{"gradients of the micro-batch before", one_late("gradient for")},
                     {"activations of the micro-batch before", one_late("activation for")},
                     {"a norm of one stage", {.call = "norms of stages", .skipped = true}}});
    }
}

}  // namespace
}  // namespace athanor::tests::faults_test
