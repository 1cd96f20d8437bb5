// The gradients of a training step on the rank that computes them: which micro-batches it takes, what happens to a
// weight's gradient as soon as it is complete, and when all are reduced. One interface of data parallelism
// (data_parallel.h), of a worker of parameter servers (parameter_server/worker.h), and of the stores below.
//
//   gradients.begin_step({.num_micro_batches = 8});
//   for (int64_t i = 0; i < std::ssize(gradients.micro_batches_of_step(8)); ++i) {
//     Tape tape({.micro_batch = i, .record = true});
//     ... the loss, tape.backward(loss) ...
//     gradients.end_micro_batch();
//   }
//   gradients.finish();
//
// The backward pass reports each weight (Weight::grad_ready), and the store of its gradient reduces it while the pass
// goes on. A pipeline has several micro-batches under way; each weight reports them in ascending order.
//
// Stores: replicated_gradients.h (ZeRO 0 and 1), disk_gradients.h (the same, offloaded), sharded_gradients.h (ZeRO 2
// and 3). Errors: the group's, in any call; Error for gradients that are not complete. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "athanor/base/check.h"
#include "athanor/parallel/data/buckets.h"
#include "athanor/parallel/data/micro_batch_shares.h"
#include "athanor/parallel/data/wait_clock.h"

namespace athanor::parallel::data {

enum class Reduce { fast, tree };

struct GradientStep {
  int64_t num_micro_batches;  // of the whole step
  int64_t update = 1;       // number of the weight update that ends the step (for the warm-up of compression)
  double loss_scale = 1.0;  // factor in the gradients, which compression takes out of its residuals (f16)
};

class Gradients {
 public:
  virtual ~Gradients() = default;
  // How many micro-batches each rank takes from the next step on (load_balance.h); the default is an even split. Error
  // where all ranks must take equally many.
  virtual void share_micro_batches(std::vector<int64_t> counts) = 0;
  // This rank's micro-batches, ascending.
  virtual std::vector<int64_t> micro_batches_of_step(int64_t num_micro_batches) const = 0;
  virtual void begin_step(const GradientStep& step) = 0;
  // Ends a micro-batch, or those of a pipeline that were under way together: they have reported every weight.
  virtual void end_micro_batch() {}
  virtual void finish() = 0;                  // blocks until all gradients are reduced or pushed
  virtual uint64_t buffer_bytes() const = 0;  // memory of one further partial sum in the tree
  virtual double comm_seconds() const = 0;    // how long the rank has waited for communication in this step
};

// Where the gradients of some buckets lie during a step, and how they are summed over the ranks: the GradSource of their
// weights.
class GradientStore : public Gradients, public GradSource {
 public:
  // `parts` consecutive ranks of the group split the tokens of one micro-batch.
  GradientStore(const Buckets& buckets, const Group& group, int parts, WaitClock& clock)
      : buckets_(buckets), shares_(group, parts), clock_(clock) {
    set_source_of_weights(this);
  }
  ~GradientStore() override { set_source_of_weights(nullptr); }

  double comm_seconds() const override { return clock_.seconds(); }
  void share_micro_batches(std::vector<int64_t> counts) final {
    check(takes_consecutive(),
          "data parallel: got numbers of micro-batches for {} ranks with sharded gradients, expected none: "
          "every accumulation step reduce-scatters one micro-batch of each rank",
          counts.size());
    shares_.set(std::move(counts));
  }
  std::vector<int64_t> micro_batches_of_step(int64_t num_micro_batches) const override {
    return shares_.own_micro_batches(num_micro_batches);
  }
  // False: a rank's micro-batches are spread over the step, the same number on every rank.
  virtual bool takes_consecutive() const { return true; }
  // The step has a last accumulation step in which other ranks have a micro-batch and this one has none. It must take
  // part in its collectives.
  virtual bool misses_round() const { return false; }
  // False: piece() reads from disk and is valid until the next call.
  virtual bool is_resident() const { return true; }
  // After finish(): the gradient of this rank's shard of the parameter, summed over the micro-batches of the step.
  virtual Tensor piece(Weight& weight) = 0;
  virtual void keep_piece() {}  // the caller has overwritten the last piece()

 protected:
  const Buckets& buckets_;
  MicroBatchShares shares_;
  WaitClock& clock_;

 private:
  void set_source_of_weights(GradSource* source) const {
    for (const Bucket& bucket : buckets_.list)
      for (Weight* weight : bucket.weights) weight->set_grad_source(source);
  }
};

}  // namespace athanor::parallel::data
