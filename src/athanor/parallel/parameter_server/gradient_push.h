// Sends a worker's gradients to the parameter servers, bucket by bucket, instead of summing them over the ranks: the
// strategy of its store (data/replicated_gradients.h).
//
//   GradientPush push(buckets, workers, world, arena, settings, clock);
//   ReplicatedGradients gradients(buckets, workers, arena, settings.reduce, settings.parts, clock, push);
//   ... the micro-batches of a step ...
//   gradients.finish();       // sync: waits until all is sent. bounded, async: the sums stay here until
//   push.push();              // they are sent
//
// sync: a bucket is sent once the last micro-batch's backward pass has completed it and all buckets before it, one row
// to each server. Reduce::tree sends each tree node that this worker holds, Reduce::fast its one sum.
// Errors: the group's. Thread rule: one thread.
#pragma once

#include "athanor/parallel/data/bucket_sum.h"
#include "athanor/parallel/parameter_server/coded_push.h"

namespace athanor::parallel::parameter_server {

class GradientPush final : public BucketSum {
 public:
  GradientPush(const Buckets& buckets, Group& workers, Group& world, Arena& arena,
               const ServerSettings& settings, WaitClock& clock);
  // Before a step: whether its sums are sent compressed, and the loss scale in its gradients (f16).
  void code(bool coded, double loss_scale);
  void skip_step();  // after a push that was not finite: clears the error-feedback residuals
  void push();
  std::vector<ExchangeState> exchange_states() const;
  // After finish(): for each parameter the sum of squares of this worker's gradient. Adds the uses of a shared
  // parameter into the first use. With compression: of the values that the servers will decode.
  std::vector<double> sum_squares(const std::vector<std::unique_ptr<Param>>& params);

  void begin_step() override { works_.clear(); }
  void start(size_t bucket, const std::vector<PartialSum>& parts, int64_t num_leaves) override;
  void finish() override;

 private:
  const Buckets& buckets_;
  Group& world_;
  ServerSettings settings_;
  WaitClock& clock_;
  std::vector<std::vector<PartialSum>> complete_;  // by bucket: partial sums to send
  size_t next_ = 0;                                // the next bucket to send: servers receive them in order
  std::unique_ptr<CodedPush> coded_;               // null: nothing is compressed
  bool codes_ = false, encoded_ = false;           // this step is compressed; all its messages are encoded
  std::vector<Work> works_;
};

}  // namespace athanor::parallel::parameter_server
