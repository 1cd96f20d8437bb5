#include "timing.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "apps/command_line/own_program.h"
#include "apps/command_line/program.h"
#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/base/cpu.h"
#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/host_memory.h"
#include "athanor/base/human.h"
#include "athanor/base/philox.h"
#include "athanor/engine/device.h"
#include "athanor/kernels/cuda/queue.h"

namespace athanor::apps {
namespace {

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double place = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

}  // namespace

double Series::median() const {
  return quantile(values, 0.5);
}

double Series::min() const {
  return quantile(values, 0.0);
}

double Series::max() const {
  return quantile(values, 1.0);
}

double Series::spread() const {
  return (quantile(values, 0.75) - quantile(values, 0.25)) / median();
}

std::vector<Series> interleave(int64_t rounds, const std::vector<std::function<double()>>& measurements) {
  std::vector<Series> series(measurements.size());
  for (int64_t round = 0; round < rounds; ++round)
    for (size_t i = 0; i < measurements.size(); ++i) {
      const size_t next = (i + static_cast<size_t>(round)) % measurements.size();
      // Give the threads of the previous measurement time to sleep (OpenMP's threads spin for a while).
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      series[next].values.push_back(measurements[next]());
    }
  return series;
}

double seconds_of(const std::function<void()>& call, double at_least) {
  // The first call wakes the threads and loads the operands into caches; for a long call that does not matter.
  double start = now_seconds();
  call();
  double took = now_seconds() - start;
  if (took > 10.0 * at_least) return took;
  int64_t calls = 0;
  start = now_seconds();
  do {
    call();
    ++calls;
    took = now_seconds() - start;
  } while (took < at_least);
  return took / static_cast<double>(calls);
}

TempFolder::TempFolder(const std::string& above) {
  const std::string base = above.empty() ? std::filesystem::temp_directory_path().string() : above;
  std::string name = join_path(base, "athanor-bench-XXXXXX");
  if (mkdtemp(name.data()) == nullptr)
    throw IoError(fmt::format("'{}': cannot make a folder there: {}", base, std::strerror(errno)), errno);
  path_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

double median_ratio(const Series& above, const Series& below) {
  Series ratios;
  for (size_t i = 0; i < above.values.size(); ++i) ratios.values.push_back(above.values[i] / below.values[i]);
  return ratios.median();
}

double share_of(const Series& ceiling, double flops, const Series& seconds) {
  Series achieved;
  for (const double value : seconds.values) achieved.values.push_back(flops / value);
  return median_ratio(achieved, ceiling);
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

Report to_report(const Series& series, double unit) {
  Report report;
  report["median"] = series.median() * unit;
  report["min"] = series.min() * unit;
  report["max"] = series.max() * unit;
  report["spread"] = series.spread();
  return report;
}

void BenchRun::add_options(CLI::App& sub) {
  add_machine_options(sub);
  add_size(sub, "--rounds", rounds, "Rounds of the interleaved run");
}

void BenchRun::add_machine_options(CLI::App& sub) {
  sub.add_option("--threads", threads, "Compute threads (0: all processors)")
      ->capture_default_str()
      ->check(CLI::Range(0, max_threads()));
  sub.add_option("--isa", isa, "Highest instruction set to use")->capture_default_str();
  sub.add_flag("--json", json, "Print one JSON document");
}

void BenchRun::open() {
  queue = nullptr;
  pool = std::make_unique<ThreadPool>(threads > 0 ? threads : num_usable_cpus());
  Config config;
  config.train.device = device;
  config.train.isa = isa;
  queue = open_device(config, 1, cuda_plugin(), pool.get());
}

double BenchRun::seconds_of(const std::function<void()>& call, double at_least) const {
  if (queue->device() != Device::cuda) return apps::seconds_of(call, at_least);
  CudaQueue& here = cuda(*queue);
  call();
  for (int64_t calls = 4;; calls *= 2) {
    here.wait();
    const double start = now_seconds();
    for (int64_t i = 0; i < calls; ++i) call();
    here.wait();
    const double took = now_seconds() - start;
    if (took >= at_least) return took / static_cast<double>(calls);
  }
}

void BenchRun::add_device_option(CLI::App& sub) {
  sub.add_option("--device", device, "cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda"}));
}

CLI::Option* add_size(CLI::App& sub, const std::string& name, int64_t& value, const std::string& help) {
  CLI::Validator counts = CLI::Range(int64_t{1}, int64_t{1} << 31);
  counts.description("");  // the limits would fill the help of every option
  return sub.add_option(name, value, help)->capture_default_str()->type_name("N")->check(counts);
}

void check_memory(const std::string& what, double bytes) {
  const auto available = static_cast<double>(available_memory_bytes());
  check(available == 0.0 || bytes < available, "{} takes {}, more memory than there is ({})", what,
        human_bytes(bytes), human_bytes(available));
}

Tensor random_tensor(Arena& arena, const Shape& shape, Dtype dtype, float scale, uint64_t stream) {
  // Repeats a pattern whose length shares no factor with the sides of matrices: drawing hundreds of millions of random
  // numbers would take longer than measuring.
  constexpr size_t kPattern = 65537;
  const RandomStream random(stream, "bench");
  std::vector<float> pattern(kPattern);
  for (size_t i = 0; i < kPattern; ++i)
    pattern[i] = (static_cast<float>(random.word(i, 0)) * 0x1p-31f - 1.0f) * scale;
  Tensor values = empty(arena, {static_cast<int64_t>(kPattern)}, dtype, Category::workspace);
  if (dtype == Dtype::f32) {
    copy_from_host(values, pattern.data(), kPattern * sizeof(float));
  } else {
    Tensor exact = empty(arena, {static_cast<int64_t>(kPattern)}, Dtype::f32, Category::workspace);
    copy_from_host(exact, pattern.data(), kPattern * sizeof(float));
    kernels_of(exact).elementwise.cast(arena.queue(), values, exact);
  }
  Tensor x = empty(arena, shape, dtype, Category::activations);
  const Tensor flat = x.view({x.numel()});
  for (int64_t first = 0; first < x.numel(); first += values.numel()) {
    Tensor part = flat.slice(first, std::min(first + values.numel(), x.numel()));
    copy(part, values.slice(0, part.numel()));
  }
  return x;
}

std::vector<float> to_floats(const Tensor& x) {
  std::vector<float> values(static_cast<size_t>(x.numel()));
  if (x.dtype() == Dtype::f32) {
    copy_to_host(values.data(), x, x.size_bytes());
    return values;
  }
  Tensor exact = empty(x.arena(), x.shape(), Dtype::f32, Category::workspace);
  kernels_of(x).elementwise.cast(x.queue(), exact, x);
  copy_to_host(values.data(), exact, exact.size_bytes());
  return values;
}

void Difference::add(double x, double y) {
  squares += (x - y) * (x - y);
  reference += y * y;
}

double Difference::relative() const {
  return std::sqrt(squares / std::max(reference, 1e-300));
}

}  // namespace athanor::apps
