// Parameters that are partitioned over the ranks (ZeRO 1 to 3), and their all-gathers. A rank holds its row of each
// bucket. Stands behind Param::value(), which waits for the parameter's all-gather.
//
//   GatheredValues values(buckets, group, arena, {.dtype = Dtype::bf16}, clock, log);
//   ... the optimizer updates param.kept(), this rank's shard ...
//   values.publish();
//
// free_after_use = false (ZeRO 1, 2): full parameters stay in memory. publish() starts the all-gathers of all buckets
// in the order of the forward pass; a parameter waits for its bucket at its first use.
// free_after_use = true (ZeRO 3): a unit (buckets.h) is all-gathered when a pass first needs it, and the unit before is
// freed. The next unit is prefetched: the one that came next in the previous micro-batch.
// Offload (ZeRO 3): rows lie on disk (bucket_file.h). While the next unit is all-gathered the rows of the unit after it
// are read. kept() is valid until kept() of another bucket. Offload works with one rank, too.
// Thread rule: one thread. All-gathers are collectives: all ranks must need the same units in the same order. The null
// device gathers nothing.
#pragma once

#include <optional>

#include "athanor/parallel/data/bucket_file.h"
#include "athanor/parallel/data/buckets.h"
#include "athanor/parallel/data/micro_batch_log.h"
#include "athanor/parallel/data/wait_clock.h"

namespace athanor::parallel::data {

struct GatherOptions {
  Dtype dtype = Dtype::f32;  // T of the parameters in computation
  bool free_after_use = false;
  DiskPlace place = {};  // offload of rows to disk, with free_after_use only
};

class GatheredValues final : public ValueSource {
 public:
  // Tells every parameter of the buckets which shard of it this rank holds.
  GatheredValues(const Buckets& buckets, Group& group, Arena& arena, GatherOptions options, WaitClock& clock,
                 MicroBatchLog& log);

  void need(const ParamStorage& param) override;
  void changed(const ParamStorage& param) override;
  Tensor kept(const ParamStorage& param) override;  // this rank's shard, where it is offloaded
  void publish();          // after every rank has updated its shards: invalidates full parameters
  void begin_step();       // records from here on in which order units are needed
  void end_micro_batch();  // the next micro-batch is expected to need them in the order of this one
  void settle();           // ends a step: waits for all-gathers; with free_after_use frees all units

 private:
  struct Gather {
    size_t bucket;
    int unit;
    int64_t first = 0;  // offset in store_: of its row, or without free_after_use of all its rows
    std::vector<Param*> params;
    Tensor row;    // this rank's row while the all-gather runs
    Tensor whole;  // T [rows * count]; undefined while it has no memory
    Work work;
    enum class State { absent, on_its_way, ready } state = State::absent;
  };

  const ShardLayout& layout_of(const Gather& gather) const { return buckets_.list[gather.bucket].layout; }
  void keep_rows();
  void keep_rows_on_disk();
  Tensor row_of(const Gather& gather);
  void start_all();
  void start(Gather& gather);
  void wait(Gather& gather);
  void drop(Gather& gather);
  template <typename Action>
  void for_unit(int unit, Action action);
  void need_unit(int unit);
  void need_other_unit(int unit);
  int next_unit(int unit);
  void read_ahead();

  const Buckets& buckets_;
  Group& group_;
  Arena& arena_;
  GatherOptions options_;
  WaitClock& clock_;
  MicroBatchLog& log_;
  std::vector<Gather> gathers_;  // in the order of the forward pass
  std::unordered_map<const ParamStorage*, size_t> gather_of_;
  Tensor store_;                    // T
  std::optional<BucketFile> file_;  // replaces store_ when offloaded: rows indexed as gathers_

  int current_ = -1;  // the unit that was needed last
  bool in_step_ = false;
  // Units needed, in order: by the previous micro-batch, and by this one so far
  std::vector<int> order_, seen_;
  size_t position_ = 0;  // in order_
};

}  // namespace athanor::parallel::data
