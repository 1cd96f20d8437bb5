// Law 5 at every file operation of a run: killed there, or with the power cut there, the run goes on to the same bits.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "support/power_env.h"
#include "support/tiers.h"
#include "train/whole_run.h"

namespace athanor::tests::kill_points_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsSubsetOf;

enum class KilledBy { signal, power_cut };

struct KillVariant {
  const char* name;
  int ranks;
  KilledBy killed_by;
  int64_t before;  // steps that are done before the process that is killed
  std::function<void(Config& config)> change;
  std::vector<Decision> decisions = {};
};
void PrintTo(const KillVariant& variant, std::ostream* out) {
  *out << variant.name;
}

std::vector<KillVariant> kill_variants() {
  const auto two_kept = [](Config& config) {
    config.train.steps = 3;
    config.checkpoint.keep = 2;
  };
  return {{"killed", 1, KilledBy::signal, 0, two_kept},
          {"without_power", 1, KilledBy::power_cut, 0, two_kept},
          {"two_ranks_tree_without_power", 2, KilledBy::power_cut, 0,
           [](Config& config) {
             config.train.steps = 2;
             config.parallel.reduce = "tree";
             config.checkpoint.keep = 1;
           }},
          {"two_ranks_zero_dropout_killed", 2, KilledBy::signal, 0,
           [](Config& config) {
             config.train.steps = 3;
             config.parallel.zero_stage = 2;
             config.model.dropout = 0.1;
             config.checkpoint.every_steps = 2;
           }},
          {"resumed_f16_without_power", 1, KilledBy::power_cut, 1,
           [](Config& config) {
             config.train.steps = 3;
             config.precision.compute = "f16";
             config.precision.loss_scale = 1e7;
             config.precision.loss_scale_window = 2;
             config.checkpoint.keep = 2;
           }},
          {"phases_killed", 2, KilledBy::signal, 0,
           [](Config& config) {
             config.train.steps = 3;
             config.model.max_position_embeddings = 12;
             config.phases = {{.name = "short", .steps = 1},
                              {.name = "long", .steps = 2, .settings = {{"data.seq_len", int64_t{12}}}}};
             config.checkpoint.keep = 2;
           }},
          {"batches_skipped_killed",
           2,
           KilledBy::signal,
           1,
           two_kept,
           {{2, SkipBatches{2}}, {3, SkipBatches{1}}}},
          {"batches_skipped_without_power",
           1,
           KilledBy::power_cut,
           1,
           [](Config& config) {
             config.train.steps = 4;
             config.checkpoint.keep = 1;
             config.checkpoint.every_steps = 2;
           },
           {{2, SkipBatches{2}}, {3, SkipBatches{1}}}},
          {"evaluated_killed", 1, KilledBy::signal, 0, [](Config& config) {
             config.train.steps = 2;
             config.train.eval_every = 1;
             config.train.initial_eval_tokens = 12;
           }}};
}

class KillPoints : public ::testing::TestWithParam<KillVariant> {
 protected:
  KillPoints() : variant(GetParam()), run(variant.ranks) {
    variant.change(run.config);
    run.decisions = variant.decisions;
  }

  std::string runs() const { return run.folder.path("runs"); }
  // Nothing happens to it; its files need not wait for a disk.
  TrainReport train() const {
    PowerEnv calm(run.folder.path("runs/t"));
    return run.train(calm);
  }
  void begin() {
    std::filesystem::remove_all(runs());
    if (variant.before == 0) return;
    const std::string begun = run.folder.path("begun");  // each point begins where the first one did
    if (!std::filesystem::exists(begun)) {
      const int64_t steps = std::exchange(run.config.train.steps, variant.before);
      train();
      run.config.train.steps = steps;
      std::filesystem::copy(runs(), begun, std::filesystem::copy_options::recursive);
      return;
    }
    std::filesystem::copy(begun, runs(), std::filesystem::copy_options::recursive);
  }
  std::vector<std::string> checkpoints() const { return system_env().list(run.file("checkpoints")); }
  std::vector<Decision> decisions() const {
    const std::string file = run.file("decisions.jsonl");
    return system_env().exists(file) ? parse_decisions(system_env().read_text(file), file)
                                     : std::vector<Decision>{};
  }
  // Of the run's folder, without what each process that worked on it leaves.
  std::vector<std::string> outputs() const {
    std::vector<std::string> found = system_env().list(run.file(""));
    std::erase_if(found, [](const std::string& name) {
      return name.starts_with("events.out.tfevents.") || name == "metrics.abandoned.jsonl" ||
             name == "decisions.abandoned.jsonl";
    });
    return found;
  }

  const KillVariant variant;
  WholeRun run;
};

TEST_P(KillPoints, AllOfThemEndInTheSameBits) {
  if (!variant.decisions.empty())
    LEAVE_OUT_UNDER(any_sanitizer,
                    "its files are those of the others and decisions.jsonl, which decisions_test writes");
  begin();
  PowerEnv calm(run.folder.path("runs/t"));
  run.train(calm);
  const History whole = run.history();
  const std::vector<Decision> taken = decisions();
  EXPECT_EQ(taken, variant.decisions);
  const std::vector<std::string> whole_outputs = outputs(), kept = checkpoints();
  ASSERT_EQ(std::ssize(whole.steps), run.config.train.steps);
  for (const FileOperation& operation : calm.operations()) {
    SCOPED_TRACE(::testing::PrintToString(operation));
    begin();
    PowerEnv env(run.folder.path("runs/t"), operation);
    try {
      run.train(env);
    } catch (const Failure&) {
    }
    // report.json is renewed while nothing waits for it, now and then not at all.
    EXPECT_TRUE(env.failed() || operation.name.find("report.json") != std::string::npos);
    if (variant.killed_by == KilledBy::power_cut) env.cut();
    for (const std::string& path : list_checkpoints(system_env(), run.file("checkpoints")))
      EXPECT_NO_THROW(Checkpoint::open(system_env(), path).verify()) << path;
    EXPECT_EQ(train().status, "finished");
    EXPECT_EQ(run.history(), whole);
    EXPECT_EQ(decisions(), taken);
    EXPECT_EQ(checkpoints(), kept);  // as many as are to be kept, and nothing half done
    EXPECT_THAT(outputs(), IsSubsetOf(whole_outputs));
  }
}

INSTANTIATE_TEST_SUITE_P(All, KillPoints, ::testing::ValuesIn(kill_variants()),
                         [](const auto& variant) { return std::string(variant.param.name); });

// A step that a checkpoint counts as done has its line after any power cut: lines are safe before the checkpoint is.
TEST(SavedSteps, HaveTheirMetricsOnTheDiskBeforeTheirCheckpoint) {
  const WholeRun run;
  PowerEnv env(run.folder.path("runs/t"));
  std::vector<int64_t> lines;  // that were safe, at each commit of a checkpoint
  env.before = [&](const FileOperation& operation) {
    if (!operation.name.starts_with("rename checkpoints/.step_")) return;
    const std::string text = system_env().read_text(run.file("metrics.jsonl"));
    const std::string safe = text.substr(0, env.safe_bytes(run.file("metrics.jsonl")));
    lines.push_back(std::count(safe.begin(), safe.end(), '\n'));
  };
  run.train(env);
  EXPECT_THAT(lines, ElementsAre(1, 2, 3, 4));
}

}  // namespace
}  // namespace athanor::tests::kill_points_test
