// The shard of one parameter server: its row of every bucket, as parameters (with f32 master and optimizer state, as in
// ZeRO 1) and as the sum of received gradients. It communicates nothing: the server's loop (server.h) or a test fills
// incoming().
//
//   ServerShard shard(model.weights(), /*server=*/1, arena, settings);   // before model.allocate()
//   for each bucket b, for each pushed sum of it:  fill shard.incoming(b);  shard.take(b, node, num_leaves);
//   shard.finish();
//   optimizer.step([&](Param& p) -> const Tensor& { return shard.grad(p); }, {...});
//   send shard.values(b) for every bucket with has_values(b)
//
// Sums have the bits of data parallelism: in the fixed tree (comm/tree.h), or in the order of take(). Memory, f32: the
// sum of all buckets; of one bucket at a time its further partial sums and the incoming row. Thread rule: one thread.
#pragma once

#include <unordered_map>
#include <vector>

#include "athanor/comm/tree.h"
#include "athanor/parallel/parameter_server/protocol.h"

namespace athanor::parallel::parameter_server {

class ServerShard final : public ValueSource {
 public:
  ServerShard(const std::vector<Weight*>& weights, int server, Arena& arena, const ServerSettings& settings);

  const Buckets& buckets() const { return buckets_; }
  Tensor incoming(size_t bucket);  // f32 [count]: buffer for the next received sum
  void take(size_t bucket, const LeafRange& node, int64_t num_leaves);
  void finish();  // ends the sums of all buckets; the next take() begins another step
  // The gradient of this server's shard of the parameter.
  const Tensor& grad(const Param& param) const { return grads_.at(&param); }
  // Whether servers have the parameter; buffers (Param::is_state) are the workers' own.
  bool has(const Param& param) const {
    return !param.uses().empty() && buckets_.places.contains(param.uses().front().get());
  }
  FlatRange piece(const Param& param, int server) const;
  bool has_values(size_t bucket) const { return values_[bucket].defined(); }
  const Tensor& values(size_t bucket) const { return values_[bucket]; }  // T [count]

  void need(const ParamStorage& param) override;  // Error: servers compute no forward pass
  void changed(const ParamStorage&) override {}

 private:
  Tensor partial(size_t index, size_t bucket);
  void keep_rows(Dtype dtype);

  int server_;
  Arena& arena_;
  Reduce reduce_;
  Buckets buckets_;
  std::vector<Tensor> values_;  // by bucket; undefined for a bucket of second uses of shared parameters
  Tensor sum_;                  // flat f32 [row_total]: the first partial sum of each bucket
  std::vector<Tensor> others_;  // f32 [longest row]: further partial sums of the bucket being received
  std::vector<std::vector<LeafRange>> partials_;  // by bucket, left to right
  std::unordered_map<const Param*, Tensor> grads_;
};

}  // namespace athanor::parallel::parameter_server
