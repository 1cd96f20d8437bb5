// Whole runs in this process that are asked to stop at any point, or whose disk is full for a while.
#include <gmock/gmock.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <optional>

#include "athanor/base/philox.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/comm/shm/thread.h"
#include "athanor/config/load.h"
#include "athanor/data/indexed_dataset.h"
#include "athanor/run/trainer.h"
#include "support/real_files.h"
#include "support/temporary_folder.h"
#include "train/hooked_world.h"

namespace athanor::tests::ending_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Files of this machine; writing below checkpoints/ fails while `full`.
class FullForSaves final : public RealFiles {
 public:
  std::atomic<bool> full{false};
  std::unique_ptr<WritableFile> create(const std::string& path) override {
    refuse(path);
    return system_env().create(path);
  }

 private:
  void refuse(const std::string& path) const {
    if (full && path.find("tensors-00001") != std::string::npos)  // of rank 1
      throw IoError("disk is full", ENOSPC);
  }
};

class Endings : public ::testing::Test {
 protected:
  void SetUp() override {
    const RandomStream stream(3, "text");
    IndexedWriter writer(system_env(), folder.path("tokens"), 41);
    std::vector<int32_t> ids;
    for (uint64_t i = 0; i < 4000; ++i) ids.push_back(static_cast<int32_t>(stream.word(i, 0) % 41));
    writer.add_document(ids);
    writer.finish();
    config = parse_config(fmt::format(R"(
[model]
model_type = "llama"
num_hidden_layers = 1
hidden_size = 16
num_attention_heads = 2
intermediate_size = 24
vocab_size = 41
[data]
channels = [ {{name = "a", path = "{0}/tokens"}} ]
seq_len = 12
valid_fraction = 0.03
[train]
runs = "{0}/runs"
name = "t"
steps = 4
global_batch_size = 10
micro_batch_size = 2
threads = 1
pin_threads = false
eval_every = 2
initial_eval_tokens = 60
[precision]
compute = "f32"
[checkpoint]
every_steps = 2
)",
                                      folder.path("")),
                          "run.toml");
  }

  // Trains on two ranks. `at_stop` runs on rank 1 in each question whether somebody was asked to stop.
  TrainReport train_on_two(const std::function<void(std::atomic<int>& stop)>& at_stop = {},
                           Env& env = system_env(), Console* console = nullptr) {
    const auto worlds = make_thread_worlds(2);
    std::vector<TrainReport> reports(2);
    std::vector<std::string> errors(2);
    run_ranks(worlds, [&](World& world) {
      std::atomic<int> stop{0};
      HookedWorld hooked(world, {.call = "stop", .change = [&](std::span<std::byte>, size_t) {
                                   if (world.rank() == 1 && at_stop) at_stop(stop);
                                 }});
      TrainIo io{.env = env, .console = world.rank() == 0 ? console : nullptr, .stop = &stop};
      const auto rank = static_cast<size_t>(world.rank());
      try {
        reports[rank] = athanor::run::train(config, hooked, io);
      } catch (const Failure& error) {
        errors[rank] = error.what();
      }
    });
    EXPECT_EQ(reports[0].status, reports[1].status);
    EXPECT_EQ(reports[0].steps, reports[1].steps);
    EXPECT_EQ(errors[0].empty(), errors[1].empty()) << errors[0] << errors[1];
    if (!errors[0].empty()) throw IoError(errors[0], ENOSPC);
    return reports[0];
  }

  std::string file(const std::string& name) const { return folder.path("runs/t/" + name); }
  std::vector<StepMetrics> metrics() const { return read_metrics(system_env(), file("metrics.jsonl")); }

  TemporaryFolder folder;
  Config config;
};

// Rank 1 alone is asked, at each of the points where that may be noticed: all end alike and at once, what is there is whole,
// and going on gives the bits of a run that nobody disturbed.
TEST_F(Endings, AskedAtAnyPoint) {
  const TrainReport whole = train_on_two();
  EXPECT_EQ(whole.status, "finished");
  EXPECT_EQ(metrics().size(), 4u);
  int given_up = 0, interrupted = 0;
  for (int at = 1;; ++at) {
    system_env().remove_all(folder.path("runs"));
    int asked = 0, questions_after = 0;
    const TrainReport report = train_on_two([&](std::atomic<int>& stop) {
      ++asked;
      if (asked == at) stop = 15;
      if (asked > at) ++questions_after;
    });
    if (asked < at) break;
    if (report.steps < 4) {
      EXPECT_EQ(report.status, "interrupted") << at;
    }
    if (report.status == "interrupted") {
      ++interrupted;
      EXPECT_LE(report.steps, 4);
      EXPECT_LE(questions_after, 3) << at;  // in the step, in its evaluation, after its save
    }
    if (report.steps > 0) {
      EXPECT_TRUE(system_env().exists(file("checkpoints/" + checkpoint_name(report.steps)))) << at;
      EXPECT_EQ(std::ssize(metrics()), report.steps) << at;
      const bool due = report.steps % 2 == 0;
      if (due && !metrics().back().valid_loss) ++given_up;
    }
    const TrainReport rest = train_on_two();
    EXPECT_EQ(rest.status, "finished") << at;
    EXPECT_EQ(rest.digest, whole.digest) << at;
    EXPECT_EQ(metrics().size(), 4u) << at;
  }
  EXPECT_GE(given_up, 2);
  EXPECT_GE(interrupted, 6);
}

// The checkpoint of one step cannot be written by one rank: all go on, and it is tried again before the next one is due.
TEST_F(Endings, AFailedSaveIsTriedAgain) {
  config.train.steps = 12;
  config.checkpoint.every_steps = 8;
  FullForSaves env;
  env.full = true;
  std::string shown;
  Console console({.write = [&](std::string_view text) {
    shown += text;
    if (text.find("step 10/12") != std::string_view::npos) env.full = false;
  }});
  const TrainReport report = train_on_two({}, env, &console);
  EXPECT_EQ(report.status, "finished");
  EXPECT_EQ(report.failed_saves, 2);  // of steps 8 and 9
  EXPECT_THAT(
      shown,
      HasSubstr("warning: step 8 could not be saved: checkpoint: rank 1: disk is full; the run goes on"));
  EXPECT_EQ(shown.find("could not be saved"), shown.rfind("could not be saved"));
  // 8 fails, 9 fails, 11 is two later.
  EXPECT_EQ(system_env().list(file("checkpoints")),
            (std::vector<std::string>{"step_00000011", "step_00000012"}));
  EXPECT_EQ(nlohmann::json::parse(system_env().read_text(file("report.json")))["failed_saves"], 2);
}

TEST_F(Endings, TheLastSaveMustNotFail) {
  FullForSaves env;
  std::string shown;
  Console console({.write = [&](std::string_view text) {
    shown += text;
    if (text.find("saved ") == 0) env.full = true;  // after the one of step 2
  }});
  try {
    train_on_two({}, env, &console);
    FAIL();
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), StartsWith("step 4 could not be saved: "));
  }
  EXPECT_THAT(shown, HasSubstr("t · failed at step 4 of 4"));
  EXPECT_THAT(shown, HasSubstr("the same command goes on from step 2"));
  env.full = false;
  EXPECT_EQ(train_on_two({}, env).status, "finished");
}

}  // namespace
}  // namespace athanor::tests::ending_test
