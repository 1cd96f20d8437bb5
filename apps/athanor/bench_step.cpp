// athanor bench step: one training step (forward, loss, backward, clip, AdamW) on random tokens.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "apps/measure/bench_model.h"
#include "apps/measure/timing.h"
#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/human.h"
#include "athanor/kernels/peak.h"
#include "bench.h"

namespace athanor::apps {
namespace {

struct BenchStep {
  std::string preset = "gpt2-124m", arch, dtype = "bf16", recompute = "none", recompute_budget = "0",
              snapshot = "off";
  int64_t batch = 4, seq = 256, steps = 5, vocab = 0;
  bool profile = false;
  BenchRun on;

  void run();
};

void BenchStep::run() {
  if (!arch.empty()) preset = arch == "llama" ? "llama-125m" : "gpt2-124m";
  Config config = bench_config(preset, batch, seq, steps + 1);
  config.precision.compute = dtype;
  config.parallel.recompute = recompute;
  const auto budget = parse_bytes(recompute_budget);
  if (!budget)
    throw ConfigError(fmt::format("--recompute-budget: got '{}', expected bytes or a text like 2GiB",
                                  printable(recompute_budget)));
  config.parallel.recompute_budget = *budget;
  config.snapshot.mode = snapshot;
  if (vocab > 0) config.model.vocab_size = vocab;
  config.train.isa = on.isa;
  config.train.device = on.device;
  on.open();
  Queue& queue = *on.queue;
  BenchModel model(config, queue);

  // The first step warms up and is checked. The ceiling is measured between the steps, on the same threads.
  Series seconds, peaks;
  Profiler profiler;
  if (profile) queue.set_meter(&profiler.meter);
  for (int64_t step = 0; step <= steps; ++step) {
    const Batch tokens = model.random_batch(step);
    const double start = now_seconds();
    const StepResult result = model.step(tokens);
    const double took = now_seconds() - start;
    if (step == 0) {
      profiler.clear();
      model.check_first(result);
    } else {
      seconds.values.push_back(took);
      profiler.add_step(took, result.seconds);
    }
    peaks.values.push_back(measure_peak_flops(queue, parse_dtype(dtype)));
    if (!on.json)
      std::fprintf(stderr, "step %lld/%lld  %.1f ms\n", static_cast<long long>(step),
                   static_cast<long long>(steps), took * 1e3);
  }
  const double step_seconds = seconds.median();
  const double rate = static_cast<double>(batch * seq) / step_seconds;
  const double achieved = rate * model.flops_per_token();
  const double peak = peaks.median();
  const auto peak_bytes = model.arena().usage().peak_total;
  Report report;
  report["preset"] = preset;
  report["params"] = model.training().model->num_params();
  report["dtype"] = dtype;
  report["batch"] = batch;
  report["seq"] = seq;
  report["device"] = on.device;
  report["threads"] = on.pool->num_threads();
  report["isa"] = isa_name(queue.isa());
  report["recompute"] = model.config().parallel.recompute;
  report["snapshot"] = snapshot;
  report["steps"] = steps;
  report["step_ms"] = step_seconds * 1e3;
  report["step_ms_min"] = seconds.min() * 1e3;
  report["step_ms_max"] = seconds.max() * 1e3;
  report["tokens_per_second"] = rate;
  report["achieved_gflops"] = achieved * 1e-9;
  report["peak_gflops"] = peak * 1e-9;
  report["mfu"] = achieved / peak;
  report["peak_bytes"] = peak_bytes;
  if (profile) {
    queue.set_meter(nullptr);
    profiler.ceilings = {peak, measure_copy_bandwidth(queue)};
    (on.json ? std::cerr : std::cout) << profiler.profile().table();
  }
  if (on.json) {
    std::cout << report.to_json();
    return;
  }
  std::cout << fmt::format(
      "{} {} batch {} x {}: {:.1f} ms a step (min {:.1f}, max {:.1f}), {:.1f} tokens/s\n"
      "{:.1f} of {:.1f} GFLOP/s, MFU {:.1f} %; peak memory {}\n",
      preset, dtype, batch, seq, step_seconds * 1e3, seconds.min() * 1e3, seconds.max() * 1e3, rate,
      achieved * 1e-9, peak * 1e-9, 100.0 * achieved / peak, human_bytes(static_cast<double>(peak_bytes)));
}

}  // namespace

void add_bench_step(CLI::App& bench) {
  CLI::App* sub = bench.add_subcommand("step", "A whole training step on random tokens");
  auto command = std::make_shared<BenchStep>();
  auto* preset = sub->add_option("--preset", command->preset, "Model")->capture_default_str();
  sub->add_option("--arch", command->arch, "gpt2 (preset gpt2-124m) or llama (llama-125m)")
      ->check(CLI::IsMember({"gpt2", "llama"}))
      ->excludes(preset);
  add_size(*sub, "--batch", command->batch, "Sequences in the step");
  add_size(*sub, "--seq", command->seq, "Tokens in a sequence");
  sub->add_option("--dtype", command->dtype, "f32, bf16 or f16")
      ->capture_default_str()
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  sub->add_option("--vocab", command->vocab, "Rows of the embedding (default: the model's)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  add_size(*sub, "--steps", command->steps, "Timed steps, after one to warm up");
  sub->add_option("--recompute", command->recompute, "none, selective, full, group:K or full*4,selective")
      ->capture_default_str();
  sub->add_option("--recompute-budget", command->recompute_budget,
                  "Bytes or 2GiB: takes the cheapest recompute that fits");
  sub->add_option("--snapshot", command->snapshot, "off, slots or copy: keep each step in memory")
      ->capture_default_str()
      ->check(CLI::IsMember({"off", "slots", "copy"}));
  command->on.add_device_option(*sub);
  command->on.add_machine_options(*sub);
  sub->add_flag("--profile", command->profile, "Print where the time goes, kernel by kernel");
  sub->callback([command] { command->run(); });
}

}  // namespace athanor::apps
