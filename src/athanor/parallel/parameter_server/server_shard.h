// What one of several parameter servers holds: its row of every bucket, as values (with master and optimizer state that
// hang on the parameters as in ZeRO 1) and as the sum of the gradients that come in. It moves no bytes: a test, or the
// server's loop (server.h), fills incoming() and says what it was.
//
//   ServerShard shard(model.weights(), /*server=*/1, arena, settings);   // before model.allocate()
//   for each bucket b, for each sum that was pushed of it:  fill shard.incoming(b);  shard.take(b, node, num_leaves);
//   shard.finish();
//   optimizer.step([&](Param& p) -> const Tensor& { return shard.grad(p); }, {...});
//   send shard.values(b) for every bucket that has some
//
// Sums are those of data parallelism, to the bit: in the fixed tree (comm/tree.h), or in the order in which they are
// taken. Memory, f32: the sum of all buckets, and of one bucket what else there is of partial sums and what comes in.
#pragma once

#include <unordered_map>
#include <vector>

#include "athanor/comm/tree.h"
#include "athanor/parallel/parameter_server/protocol.h"

namespace athanor {

class ServerShard final : public ValueSource {
 public:
  ServerShard(const std::vector<Weight*>& weights, int server, Arena& arena, const ServerSettings& settings);

  const Buckets& buckets() const { return buckets_; }
  Tensor incoming(size_t bucket);  // f32 [count]: where the next sum is put
  void take(size_t bucket, const LeafRange& node, int64_t num_leaves);
  void finish();  // of all buckets; the next sums are those of another step
  // Of what the server keeps of it.
  const Tensor& grad(const Param& param) const { return grads_.at(&param); }
  // A state is the workers'.
  bool has(const Param& param) const {
    return !param.uses().empty() && buckets_.places.contains(param.uses().front().get());
  }
  FlatRange piece(const Param& param, int server) const;
  bool has_values(size_t bucket) const { return values_[bucket].defined(); }
  const Tensor& values(size_t bucket) const { return values_[bucket]; }  // T [count]

  void need(const Param& param) override;  // Error: nobody computes here
  void changed(const Param&) override {}

 private:
  Tensor partial(size_t index, size_t bucket);
  void keep_rows(Dtype dtype);

  int server_;
  Arena& arena_;
  Reduce reduce_;
  Buckets buckets_;
  std::vector<Tensor> values_;  // by bucket, undefined where it holds other uses of what is shared
  Tensor sum_;                  // flat f32 [row_total]: the first partial sum of each bucket
  std::vector<Tensor> others_;  // f32 [longest row]: the others of the bucket that comes in
  std::vector<std::vector<LeafRange>> partials_;  // by bucket, left to right
  std::unordered_map<const Param*, Tensor> grads_;
};

}  // namespace athanor
