// athanor-bench compression: the same training with each gradient compression, and without any.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <mutex>

#include "apps/command_line/progress.h"
#include "athanor/base/thread_pool.h"
#include "athanor/comm/shm/thread.h"
#include "athanor/config/load.h"
#include "athanor/config/presets.h"
#include "athanor/config/validate.h"
#include "athanor/data/dataset.h"
#include "athanor/data/loader.h"
#include "athanor/engine/setup.h"
#include "athanor/kernels/table.h"
#include "athanor/observe/report.h"
#include "athanor/run/init_from.h"
#include "bench.h"

namespace athanor::apps {
namespace {

constexpr int64_t kLastSteps = 20;  // losses of single steps differ by their samples

// A way of sending gradients, and how the groups of a two-speed training code what they tell each other.
struct Mode {
  const char* compression;
  const char* outer = nullptr;  // null: one speed
  std::string name() const {
    if (outer == nullptr) return compression;
    return std::string("two-speed") + (outer == std::string("none") ? "" : std::string(" ") + outer);
  }
};
constexpr Mode kModes[] = {{"none"},        {"bf16"},         {"int8"},         {"topk"},        {"powersgd"},
                           {"onebit-adam"}, {"none", "none"}, {"none", "bf16"}, {"none", "int8"}};

struct BenchCompression {
  std::string file;
  std::vector<std::string> overrides;
  int ranks = 4, group = 2;
  int64_t steps = 300, sync_every = 10;
  bool json = false;

  void run();

 private:
  struct Result {
    std::string mode;
    double loss = 0.0;            // mean of the last steps
    double bytes = 0.0;           // that a rank sends, a step, after the warm-up
    double between_groups = 0.0;  // of them, to ranks of other groups (two-speed)
  };
  Result train(const Mode& mode) const;

  Config config_;
  Dataset data_;
};

BenchCompression::Result BenchCompression::train(const Mode& mode) const {
  Config config = config_;
  config.compression.method = mode.compression;
  if (mode.outer != nullptr) {
    config.local_sgd.sync_interval = sync_every;
    config.local_sgd.group_size = group;
    config.local_sgd.compression = mode.outer;
  }
  if (!config.origins.contains("compression.warmup_steps"))
    config.compression.warmup_steps = compression_warmup(config.compression.method, steps);
  config.train.eval_every = 0;
  validate(config);
  const Layout layout = make_layout(config, {.world_size = ranks});
  Result result{.mode = mode.name()};
  std::mutex mutex;
  run_ranks(make_thread_worlds(ranks), [&](World& world) {
    ThreadPool pool(1);
    const auto queue = make_cpu_queue(&pool, best_isa());
    Arena arena(*queue);
    Groups groups(layout, world);
    Training training(config, layout, groups, arena,
                      {.num_channels = static_cast<int64_t>(data_.channels.size())});
    training.allocate();
    training.model->initialize(config.train.seed);
    TrainState state = first_state(config);
    const BatchReader reader(data_.channels,
                             make_sampler(data_.channels, config.train.seed, config.train.global_batch_size),
                             config.train.micro_batch_size);
    const std::vector<int64_t> micro_batches = training.own_micro_batches();
    const auto sent = [&] {
      Traffic traffic = groups.data->traffic();
      if (layout.local_sgd > 1)
        for (const Group* part : {groups.dense.sum, groups.dense.average}) traffic += part->traffic();
      return static_cast<double>(traffic.total().bytes);
    };
    double before = 0.0, loss = 0.0;
    Batch batch;
    for (int64_t step = 1; step <= steps; ++step) {
      if (step == config.compression.warmup_steps + 1) before = sent();
      auto micro_batch = micro_batches.begin();
      const StepResult done = training.role->step(state, [&]() -> const Batch& {
        reader.read(step, *micro_batch++, batch);
        return batch;
      });
      done.or_throw();
      if (step > steps - kLastSteps) loss += done.loss;
    }
    groups.data->barrier("end");
    const auto counted = static_cast<double>(steps - config.compression.warmup_steps);
    const std::lock_guard lock(mutex);
    result.loss = loss / static_cast<double>(std::min(steps, kLastSteps));
    result.bytes += (sent() - before) / counted / ranks;
    if (layout.local_sgd > 1)
      result.between_groups +=
          static_cast<double>(groups.dense.average->traffic().total().bytes) / counted / ranks;
  });
  return result;
}

void BenchCompression::run() {
  overrides.push_back(fmt::format("train.steps={}", steps));
  config_ = load_config(system_env(), file, overrides, config_sources(system_env()));
  validate_data(config_);
  const auto tokenizer = open_tokenizer(config_, system_env());
  resolve_model(config_, tokenizer == nullptr ? 0 : tokenizer->vocab_size());
  config_.compression.method = "none";
  config_.local_sgd.sync_interval = 0;
  validate(config_);
  ProgressLine line;
  data_ = open_dataset(config_, system_env(),
                       {.threads = 1,
                        .vocab_size = config_.model.vocab_size,
                        .tokenizer = tokenizer,
                        .progress = show_tokenizing(line)});
  Report report;
  report["ranks"] = int64_t{ranks};
  report["steps"] = steps;
  if (!json)
    std::cout << fmt::format(
        "{} ranks, {} steps; loss: mean of the last {}\n{:<14} {:>8} {:>8} {:>14} {:>8} {:>14}\n", ranks,
        steps, kLastSteps, "gradients", "loss", "ratio", "bytes a step", "ratio", "between groups");
  Result whole;
  for (const Mode& mode : kModes) {
    Report entry;
    Result result;
    try {
      result = train(mode);
    } catch (const ConfigError& error) {  // a way that does not go with the other settings
      entry["gradients"] = mode.name();
      entry["refused"] = std::string(error.what());
      report["results"].push_back(entry);
      if (!json) std::cout << fmt::format("{:<14} refused: {}\n", mode.name(), error.what()) << std::flush;
      continue;
    }
    if (whole.mode.empty()) whole = result;
    entry["gradients"] = result.mode;
    entry["loss"] = result.loss;
    entry["loss_ratio"] = result.loss / whole.loss;
    entry["bytes_a_step"] = result.bytes;
    entry["bytes_ratio"] = result.bytes / whole.bytes;
    entry["bytes_between_groups"] = result.between_groups;
    report["results"].push_back(entry);
    if (!json)
      std::cout << fmt::format("{:<14} {:>8.4f} {:>8.4f} {:>14.0f} {:>8.4f} {:>14}\n", result.mode,
                               result.loss, result.loss / whole.loss, result.bytes,
                               result.bytes / whole.bytes,
                               mode.outer == nullptr ? "" : fmt::format("{:.0f}", result.between_groups))
                << std::flush;
  }
  if (json) std::cout << report.to_json();
}

}  // namespace

void add_bench_compression(CLI::App& bench) {
  CLI::App* sub = bench.add_subcommand("compression", "Loss and bytes of each way of sending gradients");
  auto command = std::make_shared<BenchCompression>();
  sub->add_option("FILE.toml", command->file, "The run's settings")->required();
  sub->add_option("--set", command->overrides, "Override a setting, e.g. compression.rank=8")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  sub->add_option("-n,--ranks", command->ranks, "Ranks, as threads of this process")
      ->capture_default_str()
      ->check(CLI::Range(2, 64));
  sub->add_option("--steps", command->steps, "Steps of each training")
      ->capture_default_str()
      ->check(CLI::Range(10, 1 << 20));
  sub->add_option("--sync-every", command->sync_every, "Local SGD: steps between outer steps")
      ->capture_default_str();
  sub->add_option("--sync-group", command->group, "Local SGD: ranks of a replica group")
      ->capture_default_str();
  sub->add_flag("--json", command->json, "Print one JSON document");
  sub->footer(
      "Nothing is written. Bytes are those that a rank gives to others, losses and norms among them, counted "
      "after\n"
      "the warm-up (compression.warmup_steps, or what a kind wants of the steps).\n"
      "\n"
      "Example:\n"
      "  athanor-bench compression bench/tinyshakespeare.toml --set train.micro_batch_size=3 -n 4 --steps "
      "300");
  sub->callback([command] { command->run(); });
}

}  // namespace athanor::apps
