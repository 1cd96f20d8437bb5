// athanor-bench optimizer: one update of all parameters, against the memory's bandwidth; and the same out of place between
// the two slots of a snapshot, with checksums of their blocks.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "apps/measure/timing.h"
#include "athanor/base/block_checksum.h"
#include "athanor/base/check.h"
#include "athanor/base/shared_memory.h"
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

// The same state in shared memory, twice: each update reads one and writes the other.
class Slots {
 public:
  explicit Slots(const State& state)
      : state_(state),
        part_bytes_((state.master.size_bytes() + 4095) / 4096 * 4096 + kStagger),
        checksums_(3) {
    const uint64_t bytes = 6 * part_bytes_;
    const int fd = create_shared_memory("snapshot", bytes);
    const std::shared_ptr<std::byte> memory = map_shared_memory(bytes, fd);
    ::close(fd);  // the mapping keeps the memory
    storage_ = state.master.arena().adopt(memory, bytes, Category::snapshot);
    for (auto& checksums : checksums_) checksums.resize(num_checksum_blocks(state.master.size_bytes()));
    for (const int slot : {0, 1}) {
      State part = at(slot);
      copy(part.master, state.master);
      copy(part.m, state.m);
      if (state.v.defined()) copy(part.v, state.v);
    }
  }

  // One slot's part of the state; the rest is shared.
  State at(int slot) const {
    State part = state_;
    const auto place = [&](Tensor& x, uint64_t index) {
      if (x.defined())
        x = Tensor(storage_, (3 * static_cast<uint64_t>(slot) + index) * part_bytes_, x.shape(), x.dtype());
    };
    place(part.master, 0);
    place(part.m, 1);
    place(part.v, 2);
    return part;
  }

  // In place in one slot: the same kind of memory.
  void update_in_place() { at(newest_).update(); }
  void update() {
    const State from = at(newest_), to = at(1 - newest_);
    const OptimizerKernels& kernel = kernels_of(from.master).optimizer;
    const Destination master{to.master, checksums_[0].data()}, m{to.m, checksums_[1].data()},
        v{to.v, checksums_[2].data()};
    const AdamwTensors of_adamw{from.master, from.m, from.v, from.value, from.grad, kDecay, master, m, v};
    const SgdTensors of_sgd{from.master, from.m, from.value, from.grad, kDecay, master, m};
    if (from.v.defined()) kernel.adamw(from.master.queue(), {&of_adamw, 1}, kAdamw);
    if (!from.v.defined()) kernel.sgd(from.master.queue(), {&of_sgd, 1}, kSgd);
    newest_ = 1 - newest_;
  }
  void check_checksums() const {
    const State newest = at(newest_);
    const Tensor* parts[] = {&newest.master, &newest.m, &newest.v};
    for (size_t i = 0; i < 3; ++i) {
      if (!parts[i]->defined()) continue;
      const uint64_t size_bytes = parts[i]->size_bytes();
      for (uint64_t block = 0; block < checksums_[i].size(); ++block) {
        const uint64_t first = block * kChecksumBlockBytes;
        const uint64_t got = block_checksum(static_cast<const std::byte*>(parts[i]->raw()) + first,
                                            std::min(kChecksumBlockBytes, size_bytes - first), block);
        check(got == checksums_[i][block],
              "bench optimizer: block {} of result {}: got checksum {:x}, expected {:x}", block, i,
              checksums_[i][block], got);
      }
    }
  }

 private:
  // Streams to and from addresses that agree in their last bits hold each other up; those of a snapshot do not agree.
  static constexpr uint64_t kStagger = 704;

  const State& state_;
  uint64_t part_bytes_;
  std::vector<std::vector<uint64_t>> checksums_;
  std::shared_ptr<Storage> storage_;
  int newest_ = 0;
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
               44.0 * static_cast<double>(params) + (1 << 29));
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
  Slots slots(state);
  slots.update();
  slots.check_checksums();
  const auto series =
      interleave(on.rounds, {[&] { return state.bytes() / seconds_of([&] { state.update(); }); },
                             [&] { return measure_copy_bandwidth(queue); },
                             [&] { return state.bytes() / seconds_of([&] { slots.update(); }); },
                             [&] { return state.bytes() / seconds_of([&] { slots.update_in_place(); }); }});
  const double share = median_ratio(series[0], series[1]);
  const double slots_ratio = median_ratio(series[3], series[2]);  // of times: the bytes are the same
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
    report["slots_ms"] = state.bytes() / series[2].median() * 1e3;
    report["slots_in_place_ms"] = state.bytes() / series[3].median() * 1e3;
    report["slots_over_in_place"] = slots_ratio;
    std::cout << report.to_json();
    return;
  }
  std::cout << fmt::format(
      "{} over {} parameters with copies in {}, {} threads, {}; medians of {} rounds\n"
      "{:.2f} ms, {:.1f} GB/s (spread {:.0f} %), {:.1f} % of a copy's {:.1f} GB/s (spread {:.0f} %)\n"
      "{:.2f} ms from slot to slot with checksums (spread {:.0f} %), {:.2f} times the {:.2f} ms in place "
      "there\n",
      name, params, dtype, on.pool->num_threads(), isa_name(queue.isa()), on.rounds,
      state.bytes() / series[0].median() * 1e3, series[0].median() * 1e-9, 100.0 * series[0].spread(),
      100.0 * share, series[1].median() * 1e-9, 100.0 * series[1].spread(),
      state.bytes() / series[2].median() * 1e3, 100.0 * series[2].spread(), slots_ratio,
      state.bytes() / series[3].median() * 1e3);
}

}  // namespace

void add_bench_optimizer(CLI::App& bench) {
  CLI::App* sub = bench.add_subcommand(
      "optimizer",
      "An update of all parameters, in place and between slots of a snapshot, beside a copy's bandwidth");
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
