// What the kernels of one rank cost: calls, time, arithmetic and traffic of each, for the roofline of a step.
//
//   Meter meter(&trace);                       // the trace (may be null) gets a span per call
//   queue.set_meter(&meter);                   // kernels open a Meter::Call each
//   for (const Meter::Line& line : meter.lines()) print(line);
//
// FLOPs and bytes are those of the operation's definition: a multiply-add counts twice, every operand is read once and
// every result written once. Divided by the time they give the share of a hardware ceiling that a kernel reaches. On
// the null device calls take no time and are only counted. Thread rule: one thread adds; read it while that thread adds
// nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "athanor/base/trace.h"

namespace athanor::base {

struct Cost {
  double flops = 0.0;
  double bytes = 0.0;
};

class Meter {
 public:
  struct Line {
    std::string kernel;  // "gemm.nt"
    std::string shape;   // "4096x768x3072", or empty where all calls count as one
    int64_t calls = 0;
    double seconds = 0.0;
    Cost cost;
  };

  explicit Meter(Trace* trace = nullptr) : trace_(trace) {}
  void add(const char* kernel, std::string shape, Cost cost, int64_t start_ns, int64_t end_ns);
  // Adds the time since the last call ended to the last call of that kernel: a device works on after its submission.
  void extend(const char* kernel, int64_t end_ns);
  std::vector<Line> lines() const;  // the most time first
  void clear() { lines_.clear(), last_.clear(); }

  // One call of a kernel, from here to the end of the scope; costs nothing if the meter is null.
  class Call {
   public:
    Call(Meter* meter, const char* kernel, Cost cost, std::string shape = {});
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Meter* meter_;
    const char* kernel_;
    Cost cost_;
    std::string shape_;
    int64_t start_ns_;
  };

 private:
  Trace* trace_;
  std::map<std::pair<std::string, std::string>, Line> lines_;
  std::map<std::string, Line*> last_;  // of each kernel
  int64_t last_end_ns_ = 0;
};

}  // namespace athanor::base
