// Whole runs of the trainer in this process: ranks as threads, two channels of random tokens, a model of one block, a
// few milliseconds a run.
//
//   WholeRun run(/*ranks=*/2);
//   run.config.checkpoint.keep = 2;
//   run.train(system_env());                       // begins the run or goes on with it
//   const History whole = run.history();           // what law 5 promises to keep, to the bit
//
// The peak of the machine is a constant, so that nothing measures it. Thread rule: one thread.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "athanor/checkpoint/checkpoint.h"
#include "athanor/comm/shm/thread.h"
#include "athanor/config/load.h"
#include "athanor/config/print.h"
#include "athanor/data/indexed_dataset.h"
#include "athanor/observe/metrics.h"
#include "athanor/run/run_folder.h"
#include "athanor/run/trainer.h"
#include "support/real_files.h"
#include "support/temporary_folder.h"
#include "train/small_training.h"

namespace athanor::tests {

// The fields of metrics.jsonl that law 5 names, with all their digits, and the digest of the newest checkpoint.
struct History {
  std::vector<std::string> steps;
  std::string digest;
  bool operator==(const History&) const = default;
};
inline void PrintTo(const History& history, std::ostream* out) {
  *out << "digest " << history.digest;
  for (const std::string& step : history.steps) *out << "\n  " << step;
}

struct WholeRun {
  static constexpr double kPeakFlops = 1e9;  // per second, of one rank

  explicit WholeRun(int num_ranks = 1) : ranks(num_ranks), config(tiny("llama")) {
    config.model.num_hidden_layers = 1;
    config.model.hidden_size = 16;
    config.model.num_attention_heads = config.model.num_key_value_heads = 2;
    config.model.head_dim = 8;
    config.model.intermediate_size = 24;
    config.data.seq_len = 6;
    config.data.valid_fraction = 0.2;
    for (const char* name : {"a", "b"}) {
      const RandomStream stream(3, name);
      IndexedWriter writer(system_env(), folder.path(name), 41);
      std::vector<int32_t> ids;
      for (uint64_t i = 0; i < 300; ++i) ids.push_back(static_cast<int32_t>(stream.word(i, 0) % 41));
      writer.add_document(ids);
      writer.finish();
      config.data.channels.push_back({.name = name, .path = folder.path(name)});
    }
    config.train.runs = folder.path("runs");
    config.train.name = "t";
    config.train.steps = 4;
    config.train.global_batch_size = 5;  // three micro-batches: uneven for two ranks
    config.train.eval_every = 0;
    config.train.initial_eval_tokens = 0;
    config.train.threads = 1;
    config.train.pin_threads = false;
    config.precision.compute = "f32";
    config.schedule.decay = "constant";
    config.checkpoint.every_steps = 1;
    config = parse_config(print_config(config), "run.toml");  // so that all of it is what the user has set
  }

  // `train_rank` may give train() another world or other settings. Throws what the rank that failed first threw.
  using TrainRank = std::function<TrainReport(const Config& config, World& world, TrainIo& io)>;
  TrainReport train(Env& env) const {
    return train(env, [](const Config& run, World& world, TrainIo& io) {
      return athanor::run::train(run, world, io);
    });
  }
  TrainReport train(Env& env, const TrainRank& train_rank) const {
    const auto worlds = make_thread_worlds(ranks);
    std::vector<TrainReport> reports(static_cast<size_t>(ranks));
    run_ranks(worlds, [&](World& world) {
      TrainIo io{.env = env};
      io.decisions = decisions;
      io.peak_flops = [](Queue&, Dtype) { return kPeakFlops; };
      reports[static_cast<size_t>(world.rank())] = train_rank(config, world, io);
    });
    return reports[0];
  }

  std::string file(const std::string& name) const { return RunFolder(config).file(name); }
  std::vector<StepMetrics> metrics() const { return read_metrics(system_env(), file("metrics.jsonl")); }
  History history() const {
    History result;
    for (const StepMetrics& m : metrics()) {
      std::string line = fmt::format("step {} tokens {} loss {} grad_norm {} lr {} loss_scale {}", m.step,
                                     m.tokens, json_number(m.loss), json_number(m.grad_norm),
                                     json_number(m.lr), json_number(m.loss_scale));
      for (const auto& [name, loss] : m.channel_loss) line += fmt::format(" {} {}", name, json_number(loss));
      result.steps.push_back(line);
    }
    const auto newest = newest_checkpoint(system_env(), file("checkpoints"), nullptr);
    if (newest) result.digest = Checkpoint::open(system_env(), *newest).digest();
    return result;
  }

  const TemporaryFolder folder;
  const int ranks;
  Config config;
  std::optional<std::vector<Decision>> decisions = {};  // TrainIo::decisions of each process
};

}  // namespace athanor::tests
