// What becomes of a bucket of gradients once this rank's micro-batches are in it: a strategy of the stores that
// accumulate a step's gradients (replicated_gradients.h, disk_gradients.h). RankSum and HybridSum sum it over the
// ranks; parameter_server/gradient_push.h sends it to parameter servers.
//
//   RankSum sum(buckets, group, Reduce::fast, clock);
//   sum.start(bucket, {{{0, 1}, values}}, group.size());   // the backward pass goes on
//   sum.finish();                                          // values are the sum over the ranks
//
// Errors: the group's. Thread rule: one thread.
#pragma once

#include <deque>
#include <vector>

#include "athanor/comm/tree.h"
#include "athanor/parallel/data/bucket_exchange.h"
#include "athanor/parallel/data/gradients.h"

namespace athanor::parallel::data {

// A rank's partial sum of a bucket, over the leaves `range` of the tree (comm/tree.h): f32 [bucket's total]. A fast sum
// has one per rank, over leaf `rank`.
struct PartialSum {
  LeafRange range;
  Tensor values;
};

class BucketSum {
 public:
  virtual ~BucketSum() = default;
  virtual void begin_step() = 0;  // drops what a failed step has left
  // `parts`: this rank's partial sums, left to right, of num_leaves leaves. The first one gets the result.
  virtual void start(size_t bucket, const std::vector<PartialSum>& parts, int64_t num_leaves) = 0;
  virtual void finish() = 0;  // blocks until all that was started is done
  // False: the result is this rank's own sum, in every stage of ZeRO (1-bit Adam after its warm-up).
  virtual bool sums() const { return true; }
};

// The sum over the ranks of a group. Reduce::fast: in the order of the ranks, reduce-scattered where buckets have
// several rows (ZeRO 1), or compressed (exchange_gradients.h). Reduce::tree: all-reduced in the fixed tree.
class RankSum final : public BucketSum {
 public:
  RankSum(const Buckets& buckets, Group& group, Reduce reduce, WaitClock& clock,
          BucketExchange* exchange = nullptr)
      : buckets_(buckets), group_(group), reduce_(reduce), clock_(clock), exchange_(exchange) {}
  void begin_step() override { works_.clear(); }
  void start(size_t bucket, const std::vector<PartialSum>& parts, int64_t num_leaves) override;
  void finish() override;
  bool sums() const override { return exchange_ == nullptr || exchange_->sums(); }

 private:
  const Buckets& buckets_;
  Group& group_;
  Reduce reduce_;
  WaitClock& clock_;
  BucketExchange* exchange_;
  std::vector<Work> works_;
};

// The fast sum of ZeRO 1 with hybrid sharding (HSDP), in two levels: each bucket is reduce-scattered within the shard
// group, then each rank's shard is all-reduced over its replicas, or exchanged compressed. So the slow links between
// shard groups carry less than with one sum over all ranks; the order of additions, and with it the last bits, differ.
//   inner    this rank's shard group: as many ranks as the buckets have rows
//   across   the ranks that hold the same shard, in the order of their shard groups
class HybridSum final : public BucketSum {
 public:
  HybridSum(const Buckets& buckets, Group& inner, Group& across, WaitClock& clock,
            BucketExchange* exchange = nullptr)
      : buckets_(buckets), inner_(inner), across_(across), clock_(clock), exchange_(exchange) {}
  void begin_step() override;
  void start(size_t bucket, const std::vector<PartialSum>& parts, int64_t num_leaves) override;
  void finish() override;

 private:
  struct Scatter {
    size_t bucket;
    Tensor shard;
    Work work;
  };
  void sum_oldest_across();

  const Buckets& buckets_;
  Group& inner_;
  Group& across_;
  WaitClock& clock_;
  BucketExchange* exchange_;
  std::deque<Scatter> scattered_;  // at most one runs while the backward pass fills the next bucket
  std::vector<Work> works_;
};

}  // namespace athanor::parallel::data
