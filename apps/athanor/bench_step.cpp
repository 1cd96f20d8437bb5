// athanor bench step: one training step (forward, loss, backward, clip, AdamW) on random tokens.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/base/human.h"
#include "athanor/base/philox.h"
#include "athanor/config/presets.h"
#include "athanor/config/validate.h"
#include "athanor/kernels/peak.h"
#include "athanor/kernels/table.h"
#include "athanor/observe/profile.h"
#include "athanor/observe/report.h"
#include "athanor/train/memory_plan.h"
#include "athanor/train/setup.h"
#include "bench.h"
#include "command.h"

namespace athanor {
namespace {

struct BenchStep {
  std::string preset = "gpt2-124m", dtype = "bf16", isa = "auto", recompute = "none";
  int64_t batch = 4, seq = 256, steps = 5;
  int threads = 0;
  bool json = false, profile = false;

  void run() const;
};

Batch random_batch(const ModelConfig& model, int64_t batch_size, int64_t seq, int64_t step) {
  Batch batch;
  batch.step = step;
  batch.num_sequences = batch_size;
  batch.seq_len = seq;
  const RandomStream stream(1, "bench");
  const auto count = static_cast<uint64_t>(batch_size * (seq + 1));
  std::vector<int32_t> ids;
  for (uint64_t i = 0; i < count; ++i)
    ids.push_back(static_cast<int32_t>(stream.word(i, static_cast<uint64_t>(step)) %
                                       static_cast<uint64_t>(model.vocab_size)));
  for (int64_t b = 0; b < batch_size; ++b) {
    const auto row = ids.begin() + b * (seq + 1);
    batch.tokens.insert(batch.tokens.end(), row, row + seq);
    batch.targets.insert(batch.targets.end(), row + 1, row + seq + 1);
    batch.channel_of.push_back(0);
  }
  return batch;
}

void BenchStep::run() const {
  check(batch >= 1 && seq >= 1 && steps >= 1,
        "bench step: got batch {}, seq {}, steps {}, expected at least 1 each", batch, seq, steps);
  Config config;
  config.model = preset_model(preset);
  config.model.max_seq_len = std::max(config.model.max_seq_len, seq);
  config.data.seq_len = seq;
  config.train.global_batch = config.train.micro_batch = batch;
  config.train.steps = steps + 1;
  config.precision.compute = dtype;
  config.parallel.recompute = recompute;
  config.train.isa = isa;
  validate(config);
  check_fits(plan_memory(config, 1, 0, 1), 1, available_memory_bytes());
  ThreadPool pool(threads > 0 ? threads : num_usable_cpus());
  const auto queue = make_cpu_queue(&pool, isa == "auto" ? best_isa() : parse_isa(isa));
  Arena arena(*queue);
  const auto group = make_single_group();
  Training training(config, 1, *group, arena, nullptr, nullptr);
  training.allocate();
  training.model->initialize(1);
  TrainState state = first_state(config);

  // The first step warms up and is checked: at initialisation the loss is close to that of guessing. The
  // ceiling is measured between the steps, on the same threads.
  std::vector<double> seconds, peaks;
  Profiler profiler;
  if (profile) queue->set_meter(&profiler.meter);
  for (int64_t step = 0; step <= steps; ++step) {
    const Batch tokens = random_batch(config.model, batch, seq, step);
    const double start = now_seconds();
    const StepResult result = training.runner->run(state, [&]() -> const Batch& { return tokens; });
    const double took = now_seconds() - start;
    if (step > 0) {
      seconds.push_back(took);
      profiler.add_step(took, result.seconds);
    } else {
      profiler.clear();
      const double guessing = std::log(static_cast<double>(config.model.vocab_size));
      check(std::abs(result.loss - guessing) < 1.0, "bench step: the first loss is {}, expected about {}",
            result.loss, guessing);
    }
    check(std::isfinite(result.loss) && std::isfinite(result.grad_norm),
          "bench step: loss {} or norm {} is not finite", result.loss, result.grad_norm);
    peaks.push_back(measure_peak_flops(*queue, training.compute));
    if (!json)
      std::fprintf(stderr, "step %lld/%lld  %.1f ms\n", static_cast<long long>(step),
                   static_cast<long long>(steps), took * 1e3);
  }
  const double step_seconds = median_of(seconds);
  const double rate = static_cast<double>(batch * seq) / step_seconds;
  const double achieved = rate * training.model->flops_per_token(seq);
  const double peak = median_of(peaks);
  Report report;
  report["preset"] = preset;
  report["params"] = training.model->num_params();
  report["dtype"] = dtype;
  report["batch"] = batch;
  report["seq"] = seq;
  report["threads"] = pool.num_threads();
  report["isa"] = isa_name(queue->isa());
  report["steps"] = steps;
  report["step_ms"] = step_seconds * 1e3;
  report["step_ms_min"] = *std::min_element(seconds.begin(), seconds.end()) * 1e3;
  report["step_ms_max"] = *std::max_element(seconds.begin(), seconds.end()) * 1e3;
  report["tokens_per_second"] = rate;
  report["achieved_gflops"] = achieved * 1e-9;
  report["peak_gflops"] = peak * 1e-9;
  report["mfu"] = achieved / peak;
  report["peak_bytes"] = arena.usage().peak_total;
  if (profile) {
    queue->set_meter(nullptr);
    profiler.ceilings = {peak, measure_copy_bandwidth(*queue)};
    (json ? std::cerr : std::cout) << profiler.profile().table();
  }
  if (json) {
    std::cout << report.to_json();
    return;
  }
  std::cout << fmt::format(
      "{} {} batch {} x {}: {:.1f} ms a step (min {:.1f}, max {:.1f}), {:.1f} tokens/s\n"
      "{:.1f} of {:.1f} GFLOP/s, MFU {:.1f} %; peak memory {}\n",
      preset, dtype, batch, seq, step_seconds * 1e3, *std::min_element(seconds.begin(), seconds.end()) * 1e3,
      *std::max_element(seconds.begin(), seconds.end()) * 1e3, rate, achieved * 1e-9, peak * 1e-9,
      100.0 * achieved / peak, human_bytes(static_cast<double>(arena.usage().peak_total)));
}

}  // namespace

void add_bench_step(CLI::App& bench) {
  CLI::App* sub = bench.add_subcommand("step", "A whole training step on random tokens");
  auto command = std::make_shared<BenchStep>();
  sub->add_option("--preset", command->preset, "Model")->capture_default_str();
  sub->add_option("--batch", command->batch, "Sequences in the step")->capture_default_str();
  sub->add_option("--seq", command->seq, "Tokens in a sequence")->capture_default_str();
  sub->add_option("--dtype", command->dtype, "f32, bf16 or f16")
      ->capture_default_str()
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  sub->add_option("--steps", command->steps, "Timed steps, after one to warm up")->capture_default_str();
  sub->add_option("--threads", command->threads, "Compute threads (0: all processors)")
      ->capture_default_str()
      ->check(CLI::Range(0, kMaxThreads));
  sub->add_option("--isa", command->isa, "Highest instruction set to use")->capture_default_str();
  sub->add_option("--recompute", command->recompute, "none or full")
      ->capture_default_str()
      ->check(CLI::IsMember({"none", "full"}));
  sub->add_flag("--profile", command->profile, "Print where the time goes, kernel by kernel");
  sub->add_flag("--json", command->json, "Print one JSON document");
  sub->callback([command] { command->run(); });
}

}  // namespace athanor
