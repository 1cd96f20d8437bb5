// athanor bench comm: one collective between the ranks of this machine, checked and then timed.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <type_traits>

#include "apps/command_line/own_program.h"
#include "apps/measure/timing.h"
#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/base/human.h"
#include "athanor/base/nearest.h"
#include "athanor/comm/shm/shm.h"
#include "athanor/comm/shm/thread.h"
#include "athanor/kernels/table.h"
#include "athanor/launch/agent.h"
#include "athanor/launch/environment/environment.h"
#include "athanor/observe/report.h"
#include "bench.h"
#include "command.h"

namespace athanor::apps {
namespace {

constexpr int kMaxBenchRanks = 64;
const std::vector<std::string> kOps = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                       "broadcast"};

// What rank r brings as its element i: of all sizes and signs, so that a sum in another order has other bits.
float value_of(int rank, int64_t i) {
  uint32_t x = static_cast<uint32_t>(i) * 2654435761u + static_cast<uint32_t>(rank + 1) * 0x9e3779b9u;
  x ^= x >> 15;
  x *= 0x2c1b3c6du;
  x ^= x >> 12;
  return static_cast<float>(static_cast<int32_t>(x)) * (x % 3 == 0 ? 1e-9f : 1e-5f);
}

template <typename T>
T sum_of_ranks(int num_ranks, int64_t i) {
  float sum = to_float(from_float<T>(value_of(0, i)));
  for (int r = 1; r < num_ranks; ++r) sum += to_float(from_float<T>(value_of(r, i)));
  return from_float<T>(sum);
}

struct BenchComm {
  std::string op = "all_reduce", dtype = "f32", transport = "shm", shared = "yes";
  int num_ranks = 2, samples = 11, repeats = 5;
  uint64_t size_bytes = 16 << 20;
  bool json = false;
  std::vector<std::string> arguments;  // of the whole command, for the ranks

  void run() const;

 private:
  bool has_rows() const { return op != "all_reduce" && op != "broadcast"; }
  void validate() const;
  void start_ranks() const;
  void run_rank(World& world) const;
  template <typename T>
  void measure(World& world) const;
  void print(const Series& seconds, const Series& copies) const;
};

void BenchComm::validate() const {
  if (std::find(kOps.begin(), kOps.end(), op) == kOps.end()) {
    const std::string nearest = nearest_name(op, kOps);
    throw ConfigError(fmt::format("bench comm: --op '{}' is unknown{}", op,
                                  nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest)),
                      fmt::format("known: {}", fmt::join(kOps, ", ")));
  }
  if (num_ranks < 1 || num_ranks > kMaxBenchRanks)
    throw ConfigError(
        fmt::format("bench comm: --ranks {}, expected 1 to {} ranks", num_ranks, kMaxBenchRanks));
  if (samples < 1 || repeats < 1)
    throw ConfigError(
        fmt::format("bench comm: --samples {} of --repeats {}, expected at least 1 each", samples, repeats));
  const uint64_t element = size_of(parse_dtype(dtype));
  const uint64_t unit = has_rows() ? element * static_cast<uint64_t>(num_ranks) : element;
  if (size_bytes == 0 || size_bytes % unit != 0)
    throw ConfigError(fmt::format("bench comm: --bytes {}, expected a positive multiple of {}: {} of {}{}",
                                  size_bytes, unit,
                                  has_rows() ? "a row of whole elements for each rank" : "whole elements",
                                  dtype, has_rows() ? fmt::format(", {} ranks", num_ranks) : ""));
  const double needed = 4.0 *  // input, output, and the two ends of the copy that is the ceiling
                        static_cast<double>(size_bytes) * num_ranks;
  check_memory(
      fmt::format("bench comm: {} ranks with {}", num_ranks, human_bytes(static_cast<double>(size_bytes))),
      needed);
}

template <typename T>
void BenchComm::measure(World& world) const {
  Group& group = world.all();
  const int me = group.rank(), n = group.size();
  const auto count = static_cast<int64_t>(size_bytes / sizeof(T));
  const int64_t row = has_rows() ? count / n : count;
  const int64_t in_count = op == "all_gather" ? row : count, out_count = op == "reduce_scatter" ? row : count;
  const Dtype type = DtypeOf<T>::value;
  using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
  // As training holds its gradients.
  const auto queue = make_cpu_queue(nullptr, best_isa());
  Arena arena(*queue, 0, [&world](size_t bytes) { return world.allocate(bytes); });
  std::vector<std::shared_ptr<Storage>> storages;
  const auto buffer = [&](int64_t elements, const char* name) {
    const size_t bytes = static_cast<size_t>(elements) * sizeof(T);
    storages.push_back(shared == "yes" ? arena.allocate_shareable(bytes, Category::communication)
                                       : arena.allocate(bytes, Category::communication));
    if (shared == "yes") group.share({storages.back(), storages.back()->data()}, bytes, name);
    return static_cast<T*>(static_cast<void*>(storages.back()->data()));
  };
  T* in = buffer(in_count, "input");
  T* out = has_rows() ? buffer(out_count, "output") : in;
  const auto run_once = [&] {
    if (op == "all_reduce") return group.all_reduce(in, count, type, op).wait();
    if (op == "broadcast") return group.broadcast(in, count, type, 0, op).wait();
    if (op == "all_gather") return group.all_gather(in, out, row, type, op).wait();
    if (op == "reduce_scatter") return group.reduce_scatter(in, out, row, type, op).wait();
    group.all_to_all(in, out, row, type, op).wait();
  };
  // Element i of what this rank must end with.
  const auto expected = [&](int64_t i) {
    if (op == "all_reduce") return sum_of_ranks<T>(n, i);
    if (op == "reduce_scatter") return sum_of_ranks<T>(n, me * row + i);
    if (op == "broadcast") return from_float<T>(value_of(0, i));
    const int from = static_cast<int>(i / row);
    return from_float<T>(value_of(from, op == "all_gather" ? i % row : me * row + i % row));
  };
  for (int64_t i = 0; i < in_count; ++i) in[i] = from_float<T>(value_of(me, i));
  run_once();
  for (int64_t i = 0; i < out_count; ++i) {
    const T want = expected(i);
    check(std::bit_cast<Bits>(want) == std::bit_cast<Bits>(out[i]),
          "bench comm: {} on rank {}, element {}: got {}, expected {}", op, me, i, to_float(out[i]),
          to_float(want));
  }
  std::memset(static_cast<void*>(in), 0, static_cast<size_t>(in_count) * sizeof(T));  // stay finite
  run_once();
  // The ceiling is measured in between: all ranks at once copy as many bytes, each for itself.
  const auto scratch = arena.allocate(size_bytes, Category::communication);
  const auto source = arena.allocate(size_bytes, Category::communication);
  std::memset(source->data(), 0, size_bytes);
  const auto copy_once = [&] { std::memcpy(scratch->data(), source->data(), size_bytes); };
  const auto mean_seconds = [&](const auto& body) {
    group.barrier("sample");
    const double start = now_seconds();
    for (int i = 0; i < repeats; ++i) body();
    return (now_seconds() - start) / repeats;
  };
  copy_once();
  Series seconds, copies;
  for (int sample = 0; sample < samples; ++sample) {
    copies.values.push_back(mean_seconds(copy_once));
    seconds.values.push_back(mean_seconds(run_once));
  }
  group.barrier("end");
  if (me == 0) print(seconds, copies);
}

void BenchComm::print(const Series& seconds, const Series& copies) const {
  const double median = seconds.median(), copy = copies.median(), bytes = static_cast<double>(size_bytes);
  Report report;
  report["op"] = op;
  report["ranks"] = num_ranks;
  report["bytes"] = size_bytes;
  report["dtype"] = dtype;
  report["transport"] = transport;
  report["shared"] = shared == "yes";
  report["samples"] = samples;
  report["repeats"] = repeats;
  report["median_seconds"] = median;
  report["min_seconds"] = seconds.min();
  report["max_seconds"] = seconds.max();
  report["algorithm_gbps"] = bytes / median * 1e-9;
  report["copy_seconds"] = copy;
  report["percent_of_copy"] = 100.0 * copy / median;
  if (json) {
    std::cout << report.to_json() << std::flush;
    return;
  }
  std::cout
      << fmt::format(
             "{} of {} {} between {} rank{} over {}{}: {:.3f} ms (min {:.3f}, max {:.3f}), {:.2f} GB/s\n"
             "{:.0f} % of the speed at which the ranks copy as much, {:.2f} GB/s\n",
             op, human_bytes(bytes), dtype, num_ranks, num_ranks == 1 ? "" : "s", transport,
             shared == "yes" ? " in shared memory" : "", median * 1e3, seconds.min() * 1e3,
             seconds.max() * 1e3, bytes / median * 1e-9, 100.0 * copy / median, bytes / copy * 1e-9)
      << std::flush;
}

void BenchComm::run_rank(World& world) const {
  if (dtype == "bf16") return measure<Bf16>(world);
  measure<float>(world);
}

void BenchComm::start_ranks() const {
  LaunchOptions options;
  options.num_ranks = num_ranks;
  options.command = arguments;
  for (char** entry = environ; *entry != nullptr; ++entry) options.environment.emplace_back(*entry);
  options.control = false;  // they find their segment in their environment
  options.write = [](std::string_view bytes) { std::fwrite(bytes.data(), 1, bytes.size(), stderr); };
  const LaunchResult result = run_agent(options);
  if (result.exit_code != 0) throw Recoverable(text_of(result), result.hint);
}

void BenchComm::run() const {
  validate();
  const RankEnvironment place =
      parse_rank_environment([](const char* name) -> const char* { return std::getenv(name); });
  if (place.launched) {
    run_rank(*open_shm_world(place.shm_fd, place.rank, num_ranks));
  } else if (transport == "shm") {
    start_ranks();
  } else {
    run_ranks(make_thread_worlds(num_ranks), [&](World& world) { run_rank(world); });
  }
}

}  // namespace

void add_bench_comm(CLI::App& bench) {
  CLI::App* sub = bench.add_subcommand("comm", "A collective between ranks of this machine");
  auto command = std::make_shared<BenchComm>();
  sub->add_option("--op", command->op, "all_reduce, reduce_scatter, all_gather, all_to_all or broadcast")
      ->capture_default_str();
  sub->add_option("--ranks", command->num_ranks, "How many ranks")->capture_default_str();
  sub->add_option("--bytes", command->size_bytes, "Of a rank's largest buffer, such as 1000000 or 16MiB")
      ->capture_default_str()
      ->transform(CLI::AsSizeValue(false))
      ->transform([](const std::string& text) {  // the one above would read it modulo 2^64
        if (text.find('-') != std::string::npos)
          throw CLI::ValidationError("--bytes", "got " + text + ", expected a number of bytes");
        return text;
      });
  sub->add_option("--dtype", command->dtype, "f32 or bf16")
      ->capture_default_str()
      ->check(CLI::IsMember({"f32", "bf16"}));
  sub->add_option("--transport", command->transport, "shm: ranks are processes; thread: they are threads")
      ->capture_default_str()
      ->check(CLI::IsMember({"shm", "thread"}));
  sub->add_option("--shared", command->shared, "Whether buffers lie in memory that all ranks can address")
      ->capture_default_str()
      ->check(CLI::IsMember({"yes", "no"}));
  sub->add_option("--samples", command->samples, "How many times to measure")->capture_default_str();
  sub->add_option("--repeats", command->repeats, "Collectives in a measurement")->capture_default_str();
  sub->add_flag("--json", command->json, "Print one JSON document");
  sub->callback([command, sub] {
    command->arguments = {own_program(), "bench", "comm"};
    for (const CLI::Option* option : sub->get_options()) {
      if (option->count() == 0) continue;
      command->arguments.push_back("--" + option->get_lnames().front());
      if (option->get_items_expected_max() > 0) command->arguments.push_back(option->as<std::string>());
    }
    command->run();
  });
}

}  // namespace athanor::apps
