// Data parallelism: ranks compute the gradients of different grains of a step (a grain is one micro-batch),
// and the gradients are summed while the backward pass still runs.
//
//   DataParallel parallel(model.weights(), group, arena, options);
//   parallel.begin_step(num_grains);
//   for (grain : grains_of_step(num_grains)) {
//     Tape tape; parallel.begin_grain(tape, grain); ... tape.backward(loss); parallel.end_grain();
//   }
//   parallel.finish();                             // waits; every rank holds the same sums
//   const Tensor& g = parallel.grad(param);
//
// Gradients lie in flat f32 buffers cut into buckets in the order in which the backward pass completes them;
// a complete bucket of the rank's last grain starts its reduction at once.
//   Reduce::fast   a rank adds up its grains in one buffer; ranks are added in the order 0 ... n-1
//   Reduce::tree   every grain starts at zero and the grains of the step are added in the fixed binary tree of
//                  comm/tree.h, whoever computes them: the same bits for any number of ranks (law 5). Costs
//                  up to ceil(log2 grains) + 1 further gradient buffers.
// With several ranks the buffers lie in memory that all of them can address, so that a reduction copies nothing.
// The uses of a shared parameter are reduced apart and added afterwards, in the order they were declared (law
// 1). A group of one is serial training. Errors of the group surface in finish().
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "athanor/autograd/tape.h"
#include "athanor/base/trace.h"
#include "athanor/comm/group.h"
#include "athanor/comm/tree.h"

namespace athanor {

enum class Reduce { fast, tree };

struct DataParallelOptions {
  Reduce reduce = Reduce::fast;
  int64_t bucket_bytes = 16 << 20;
  Trace* trace = nullptr;
};

class DataParallel {
 public:
  DataParallel(const std::vector<Weight*>& weights, Group& group, Arena& arena, DataParallelOptions options);

  LeafRange grains_of_step(int64_t num_grains) const;  // [first, last) of this rank
  void begin_step(int64_t num_grains);                 // Error if there are more ranks than grains
  void begin_grain(Tape& tape, int64_t grain);
  void end_grain();
  void finish();

  const Tensor& grad(
      Param& param) const;  // after finish(): the sum over all grains of the step, not averaged
  double comm_seconds() const { return comm_seconds_; }  // of the last step: time that finish() waited
  int64_t num_buckets() const { return static_cast<int64_t>(buckets_.size()); }

 private:
  struct Bucket {
    int64_t first = 0, count = 0;  // in the flat buffers
    int64_t num_weights = 0, pending = 0;
  };
  // A partial sum this rank holds: the grains [range) in buffer `buffer`.
  struct Partial {
    LeafRange range;
    int buffer;
  };
  struct Merge {
    int into, from;  // buffers
  };

  void reserve_buffers(size_t count);
  Tensor make_buffer();
  int take_buffer();
  void use_buffer(int buffer);
  void plan_last_grain();
  void weight_ready(Weight& weight);
  void start_reduce(size_t bucket);
  Tensor add_uses(const Param& param);
  void add_buffer(int into, int from, int64_t first, int64_t count);

  Group& group_;
  Arena& arena_;
  DataParallelOptions options_;
  std::vector<Weight*> weights_;  // in bucket order
  std::unordered_map<const Weight*, size_t> bucket_of_;
  std::unordered_map<const Weight*, int64_t> offset_of_;
  std::vector<Bucket> buckets_;
  int64_t total_ = 0;
  std::deque<Tensor> buffers_;  // flat f32 [total]
  // Memory for as many buffers as any rank needs, since ranks allocate together; each rank uses what it needs.
  std::vector<std::shared_ptr<std::byte>> reserved_;
  std::vector<int> free_buffers_;

  int64_t num_grains_ = 0, grain_ = 0;
  LeafRange grains_{0, 0};
  std::vector<Partial> partials_;   // left to right
  std::vector<Merge> last_merges_;  // of the last grain, done bucket by bucket
  int current_ = 0;
  std::vector<Work> works_;
  std::unordered_map<const Param*, Tensor> grads_;
  double comm_seconds_ = 0.0;
};

}  // namespace athanor
