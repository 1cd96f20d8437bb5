// Interface of gradient accumulation and reduction: where gradients lie during a step, and how they are summed over the
// ranks. Implementations: replicated_gradients.h (ZeRO 0 and 1), hybrid_gradients.h (ZeRO 1 with hybrid sharding),
// disk_gradients.h (offloaded), sharded_gradients.h (ZeRO 2 and 3). data_parallel.h shows the order of the calls.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "athanor/autograd/tape.h"
#include "athanor/base/clock.h"
#include "athanor/base/trace.h"
#include "athanor/comm/group.h"

namespace athanor::parallel::data {

enum class Reduce { fast, tree };

class GradientSum {
 public:
  virtual ~GradientSum() = default;
  // How many micro-batches each rank takes from the next step on. Error where each accumulation step has one
  // micro-batch of every rank (ZeRO 2 and 3).
  virtual void share_micro_batches(std::vector<int64_t> counts) = 0;
  virtual std::vector<int64_t> micro_batches_of_step(
      int64_t num_micro_batches) const = 0;  // of this rank, ascending
  virtual void begin_step(int64_t num_micro_batches) = 0;
  // Returns the callback for weights whose gradient the micro-batch's backward pass has completed; may be empty.
  virtual WeightReady begin_micro_batch(int64_t micro_batch) = 0;
  // Instead of begin_micro_batch(), for a pipeline: begins all micro-batches of this rank. Each weight completes the
  // micro-batches in ascending order.
  virtual void begin_pass() = 0;
  // The weight's gradient of that micro-batch is complete.
  virtual void weight_ready(Weight& weight, int64_t micro_batch) = 0;
  virtual void end_micro_batch() = 0;  // ends a micro-batch, or the pass
  // Begins an accumulation step in which this rank has no micro-batch but must take part in the collectives (a dummy
  // micro-batch). False: the step has none.
  virtual bool begin_idle_round() { return false; }
  virtual void finish() = 0;
  // False: piece() reads from disk and is valid until the next call.
  virtual bool is_resident() const { return true; }
  // After finish(): the gradient of this rank's shard of the parameter, summed over the micro-batches of the step.
  virtual Tensor piece(Weight& weight) = 0;
  virtual void keep_piece() {}                // the caller has overwritten the last piece()
  virtual uint64_t buffer_bytes() const = 0;  // memory of one further partial sum in the tree
};

// The time that this rank has waited for communication, by a clock in seconds.
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

}  // namespace athanor::parallel::data
