// athanor-bench optimizer: one update of all parameters, against the memory's bandwidth.
#include <CLI/CLI.hpp>
#include <iostream>

#include "apps/measure/timing.h"
#include "athanor/base/check.h"
#include "athanor/kernels/peak.h"
#include "bench.h"

namespace athanor::apps {
namespace {

constexpr AdamwStep kAdamw{.lr = 1e-3f,
                           .beta1 = 0.9f,
                           .beta2 = 0.95f,
                           .eps = 1e-8f,
                           .correction1 = 0.19f,
                           .correction2 = 0.0975f,
                           .grad_scale = 0.5f};
constexpr SgdStep kSgd{.lr = 1e-2f, .momentum = 0.9f, .grad_scale = 0.5f};
constexpr float kDecay = 0.1f;
constexpr int64_t kSample = 100000;  // elements that are checked, at the end

// The state of one parameter; m is sgd's too. `value` is the copy that the model computes with.
struct State {
  State(Arena& arena, int64_t count, bool adamw, Dtype dtype)
      : master(random_tensor(arena, {count}, Dtype::f32, 1.0f, 1)),
        m(random_tensor(arena, {count}, Dtype::f32, 0.01f, 2)),
        grad(random_tensor(arena, {count}, Dtype::f32, 0.02f, 3)) {
    if (adamw) {
      v = random_tensor(arena, {count}, Dtype::f32, 0.01f, 4);
      for (float* x = v.data<float>(); x != v.data<float>() + count; ++x) *x *= *x;
    }
    if (dtype != Dtype::f32) value = empty(arena, {count}, dtype, Category::parameters);
  }

  void update() {
    const AdamwTensors of_adamw{master, m, v, value, grad, kDecay};
    const SgdTensors of_sgd{master, m, value, grad, kDecay};
    const OptimizerKernels& kernel = kernels_of(master).optimizer;
    if (v.defined()) kernel.adamw(master.queue(), {&of_adamw, 1}, kAdamw);
    if (!v.defined()) kernel.sgd(master.queue(), {&of_sgd, 1}, kSgd);
  }
  // Every operand read once, every result written once.
  double bytes() const {
    return static_cast<double>(
        2 * (master.size_bytes() + m.size_bytes() + (v.defined() ? v.size_bytes() : 0)) + grad.size_bytes() +
        (value.defined() ? value.size_bytes() : 0));
  }
  std::vector<Tensor> results() const {
    std::vector<Tensor> all = {master, m};
    if (v.defined()) all.push_back(v);
    if (value.defined()) all.push_back(value);
    return all;
  }

  Tensor master, m, v, grad, value;
};

struct BenchOptimizer {
  std::string name = "adamw", dtype = "bf16";
  int64_t params = 124439808;
  BenchRun on;

  void run();
};

// One update of the last elements against that of the reference kernels, element by element the same inputs.
double check_update(State& state, const State& before) {
  const auto reference = make_cpu_queue(nullptr, Isa::generic);
  Arena arena(*reference);
  const int64_t count = before.master.numel(), first = state.master.numel() - count;
  State expected(arena, count, state.v.defined(), state.value.defined() ? state.value.dtype() : Dtype::f32);
  const auto copy = [](Tensor& to, const Tensor& from) { copy_from_host(to, from.raw(), from.size_bytes()); };
  copy(expected.master, before.master);
  copy(expected.m, before.m);
  copy(expected.grad, before.grad);
  if (state.v.defined()) copy(expected.v, before.v);
  expected.update();
  state.update();
  double worst = 0.0;
  const auto got = state.results(), wanted = expected.results();
  for (size_t i = 0; i < got.size(); ++i) {
    const auto x = to_floats(got[i].flat(first, count)), y = to_floats(wanted[i]);
    Difference difference;
    for (size_t j = 0; j < x.size(); ++j) difference.add(x[j], y[j]);
    const double limit = got[i].dtype() == Dtype::f32 ? 1e-6 : 1e-3;
    check(difference.relative() <= limit,
          "bench optimizer: result {} is {:.2e} from the reference, expected {:.0e}", i,
          difference.relative(), limit);
    worst = std::max(worst, difference.relative());
  }
  return worst;
}

void BenchOptimizer::run() {
  on.open();
  Queue& queue = *on.queue;
  Arena arena(queue);
  check_memory(fmt::format("bench optimizer: {} parameters", params),
               20.0 * static_cast<double>(params) + (1 << 29));
  const bool adamw = name == "adamw";
  State state(arena, params, adamw, parse_dtype(dtype));
  const int64_t sample = std::min(kSample, params), first = params - sample;
  State before(arena, sample, adamw, Dtype::f32);
  const auto keep = [&](Tensor& to, const Tensor& from) {
    copy_from_host(to, from.flat(first, sample).raw(), to.size_bytes());
  };
  keep(before.master, state.master);
  keep(before.m, state.m);
  keep(before.grad, state.grad);
  if (adamw) keep(before.v, state.v);
  const double error = check_update(state, before);
  const auto series =
      interleave(on.rounds, {[&] { return state.bytes() / seconds_of([&] { state.update(); }); },
                             [&] { return measure_copy_bandwidth(queue); }});
  const double share = median_ratio(series[0], series[1]);
  if (on.json) {
    Report report;
    report["name"] = name;
    report["params"] = params;
    report["dtype"] = dtype;
    report["threads"] = on.pool->num_threads();
    report["isa"] = isa_name(queue.isa());
    report["rounds"] = on.rounds;
    report["error"] = error;
    report["bytes_per_parameter"] = state.bytes() / static_cast<double>(params);
    report["ms"] = state.bytes() / series[0].median() * 1e3;
    report["gbytes_per_second"] = series[0].median() * 1e-9;
    report["bandwidth"] = to_report(series[0], 1e-9);
    report["copy_bandwidth"] = to_report(series[1], 1e-9);
    report["of_copy"] = share;
    std::cout << report.to_json();
    return;
  }
  std::cout << fmt::format(
      "{} over {} parameters with copies in {}, {} threads, {}; medians of {} rounds\n"
      "{:.2f} ms, {:.1f} GB/s (spread {:.0f} %), {:.1f} % of a copy's {:.1f} GB/s (spread {:.0f} %)\n",
      name, params, dtype, on.pool->num_threads(), isa_name(queue.isa()), on.rounds,
      state.bytes() / series[0].median() * 1e3, series[0].median() * 1e-9, 100.0 * series[0].spread(),
      100.0 * share, series[1].median() * 1e-9, 100.0 * series[1].spread());
}

}  // namespace

void add_bench_optimizer(CLI::App& bench) {
  CLI::App* sub = bench.add_subcommand("optimizer", "An update of all parameters beside a copy's bandwidth");
  auto command = std::make_shared<BenchOptimizer>();
  add_size(*sub, "--params", command->params, "How many");
  sub->add_option("--name", command->name, "adamw or sgd")
      ->capture_default_str()
      ->check(CLI::IsMember({"adamw", "sgd"}));
  sub->add_option("--dtype", command->dtype, "Of the copy that the model computes with; f32: there is none")
      ->capture_default_str()
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  command->on.add_options(*sub);
  sub->footer(
      "Bytes are those of every operand read once and every result written once. A sample is checked "
      "against\n"
      "the reference kernels first.");
  sub->callback([command] { command->run(); });
}

}  // namespace athanor::apps
