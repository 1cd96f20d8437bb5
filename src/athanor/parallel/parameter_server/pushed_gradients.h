// Gradients of a worker of parameter servers: a rank's sums of its grains, as data parallelism holds them
// (replicated_gradients.h), whose buckets go to the servers instead of being summed over the ranks.
//
//   PushedGradients gradients(buckets, workers, world, arena, settings, clock);
//   ... the grains of a step ...
//   gradients.finish();       // sync: all is with the servers. Otherwise: the sums stay here until
//   gradients.push();         // bounded, async: they are sent as they are
//
// In sync a bucket is sent when the backward pass of the last grain has completed it and those before it, one row to each
// server, of each node of the tree that this worker holds (Reduce::tree), or of its one sum.
#pragma once

#include "athanor/parallel/parameter_server/coded_push.h"
#include "athanor/parallel/replicated_gradients.h"

namespace athanor {

class PushedGradients final : public ReplicatedGradients {
 public:
  PushedGradients(const Buckets& buckets, Group& workers, Group& world, Arena& arena,
                  const ServerSettings& settings, WaitClock& clock);
  // Before a step: whether its sums are sent as codes, and what its gradients are multiplied by (f16).
  void code(bool coded, double loss_scale = 1.0);
  void skip_step();  // its push was not finite: what codes have kept of it is dropped
  void push();
  std::vector<CompressionState> compression_states() const;
  // Of the sums of this worker, after finish(): of each parameter, all uses together, the sum of squares. The uses of a
  // shared parameter are added to the first. Of sums that are coded: of what the servers will see.
  std::vector<double> sum_squares(const std::vector<std::unique_ptr<Param>>& params);

 protected:
  void start_sum(size_t bucket, const std::vector<TreeNode>& nodes) override;

 private:
  void send_complete();

  const Buckets& buckets_;
  Group& world_;
  ServerSettings settings_;
  std::vector<std::vector<TreeNode>> complete_;  // by bucket: what is to be sent
  size_t next_ = 0;                              // bucket: the servers take them in order
  std::unique_ptr<CodedPush> coded_;             // null: nothing is compressed
  bool codes_ = false, encoded_ = false;         // this step's; all of them are made
};

}  // namespace athanor
