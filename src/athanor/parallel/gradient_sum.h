// Where gradients lie during a step and how they are summed over the ranks: the part of data parallelism that
// replicated_gradients (ZeRO 0 and 1) and sharded_gradients (ZeRO 2 and 3) do in two ways. data_parallel.h shows the
// order of the calls.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "athanor/autograd/tape.h"
#include "athanor/base/clock.h"
#include "athanor/base/trace.h"
#include "athanor/comm/group.h"

namespace athanor {

enum class Reduce { fast, tree };

class GradientSum {
 public:
  virtual ~GradientSum() = default;
  // How many grains each rank takes from the next step on. Error where each round has one of every rank.
  virtual void share_grains(std::vector<int64_t> counts) = 0;
  virtual std::vector<int64_t> grains_of_step(int64_t num_grains) const = 0;  // of this rank, ascending
  virtual void begin_step(int64_t num_grains) = 0;
  // What is told of the weights that the backward pass of the grain completes; may be empty.
  virtual WeightReady begin_grain(int64_t grain) = 0;
  // In place of begin_grain(): all grains of this rank at once, as a pipeline works on them; each weight goes through
  // them in their order.
  virtual void begin_pass() = 0;
  virtual void weight_ready(Weight& weight, int64_t grain) = 0;  // its gradient of that grain is complete
  virtual void end_grain() = 0;                                  // or the pass
  // A round of the step in which this rank has no grain, which it must go through all the same; false: there is none.
  virtual bool begin_idle_round() { return false; }
  virtual void finish() = 0;
  virtual bool is_resident() const { return true; }  // false: piece() reads, so it is asked for one at a time
  // After finish(): the sum over the grains of the step, of what this rank keeps of the parameter.
  virtual Tensor piece(Weight& weight) = 0;
  virtual void keep_piece() {}                // what piece() gave last was overwritten
  virtual uint64_t buffer_bytes() const = 0;  // of one further partial sum in the tree
};

// Time that the rank waited for others, by a clock in seconds.
class WaitClock {
 public:
  explicit WaitClock(Trace* trace, std::function<double()> clock = now_seconds)
      : trace_(trace), clock_(std::move(clock)) {}
  void wait(Work& work, const char* span) {
    const double start = clock_();
    {
      const Span shown(trace_, span, "comm");
      work.wait();
    }
    seconds_ += clock_() - start;
  }
  double seconds() const { return seconds_; }
  void reset() { seconds_ = 0.0; }

 private:
  Trace* trace_;
  std::function<double()> clock_;
  double seconds_ = 0.0;
};

}  // namespace athanor
