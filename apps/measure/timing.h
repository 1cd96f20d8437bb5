// What the measurements of `athanor bench` share: interleaved timing, medians and spreads, tables.
//
//   const auto series = interleave(rounds, {[&] { return seconds_of(ours); },
//                                           [&] { return seconds_of(peer); },
//                                           [&] { return measure_peak_flops(*queue, dtype); }});
//   median_ratio(series[1], series[0])          // how many times faster ours is than the peer
//
// Machines change their speed from one second to the next. So everything that is compared is measured in one run, in
// rounds that measure each candidate once, and ratios are formed within a round.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "athanor/kernels/table.h"
#include "athanor/observe/report.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace athanor::apps {

struct Series {
  std::vector<double> values;  // one per round

  double median() const;
  double min() const;
  double max() const;
  double spread() const;  // the middle half of the values over the median
};

// Each round calls every measurement once; successive rounds begin with different ones.
std::vector<Series> interleave(int64_t rounds, const std::vector<std::function<double()>>& measurements);

// Seconds of one call: after one call that is not counted, the mean of as many calls as take `at_least` seconds.
double seconds_of(const std::function<void()>& call, double at_least = 0.004);

double median_ratio(const Series& above, const Series& below);  // the median of the rounds' ratios
// The share of a ceiling (FLOP/s) that `flops` in the given seconds reach: the median over the rounds.
double share_of(const Series& ceiling, double flops, const Series& seconds);
double geometric_mean(const std::vector<double>& values);

// {"median": ..., "min": ..., "max": ..., "spread": ...}, all but the spread times `unit`.
Report to_report(const Series& series, double unit = 1.0);

// The options that every measurement takes, and where it runs.
struct BenchRun {
  int threads = 0;  // 0: all processors
  std::string isa = "auto", device = "cpu";
  int64_t rounds = 7;
  bool json = false;

  void add_options(CLI::App& sub);          // all of them
  void add_machine_options(CLI::App& sub);  // but --rounds
  void add_device_option(CLI::App& sub);
  void open();
  // As the function of this name; on a device of as many calls as take `at_least` seconds, with one wait.
  double seconds_of(const std::function<void()>& call, double at_least = 0.004) const;

  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Queue> queue;
};

// An option that is a count: at least 1, and at most so large that the product of two does not overflow.
CLI::Option* add_size(CLI::App& sub, const std::string& name, int64_t& value, const std::string& help);

// Error if `bytes` are more memory than this machine has left.
void check_memory(const std::string& what, double bytes);

// A folder that is removed with the object, under `above` or in the system's folder for temporary files.
class TempFolder {
 public:
  explicit TempFolder(const std::string& above = "");
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Random values in [-1, 1) times `scale`; the same for every run.
Tensor random_tensor(Arena& arena, const Shape& shape, Dtype dtype, float scale, uint64_t stream);
std::vector<float> to_floats(const Tensor& x);

// |x - y| / |y| over all values, in f64.
struct Difference {
  double squares = 0.0, reference = 0.0;
  void add(double x, double y);
  double relative() const;
};

}  // namespace athanor::apps
