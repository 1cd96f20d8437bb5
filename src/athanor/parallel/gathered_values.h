// Values of parameters of which every rank keeps a share (ZeRO 1 to 3): the rank's row of each bucket, in memory that
// the other ranks can address. Stands behind Param::value().
//
//   GatheredValues values(buckets, group, arena, Dtype::bf16, /*free_after_use=*/false, clock, log);
//   ... optimizer updates param.kept() ...
//   values.publish();
//
// free_after_use = false (ZeRO 1, 2): whole values have memory of their own. publish() starts the gathers of all
// buckets, in the order of the forward pass; a value waits for its bucket at its first use.
// free_after_use = true (ZeRO 3): values are gathered when a pass first needs their unit (buckets.h), and the unit
// that was needed before goes. While one is used the next is on its way: the one that came next in the grain before.
// Offload (ZeRO 3): rows lie on disk (bucket_file.h), the one of the unit after the next is being read while the next is
// gathered; kept() has a row in memory until that of another bucket is asked for. Then a group may be of one, too.
// Gathers are collectives: the ranks must need the same units in the same order. The null device gathers nothing.
#pragma once

#include <optional>

#include "athanor/parallel/bucket_file.h"
#include "athanor/parallel/buckets.h"
#include "athanor/parallel/gradient_sum.h"
#include "athanor/parallel/grain_log.h"

namespace athanor {

struct GatherOptions {
  Dtype dtype = Dtype::f32;  // T of the values
  bool free_after_use = false;
  DiskPlace place = {};  // where rows lie, with free_after_use; nowhere: in memory
};

class GatheredValues final : public ValueSource {
 public:
  // Says to every parameter of the buckets what this rank keeps of it.
  GatheredValues(const Buckets& buckets, Group& group, Arena& arena, GatherOptions options, WaitClock& clock,
                 GrainLog& log);

  void need(const Param& param) override;
  void changed(const Param& param) override;
  Tensor kept(const Param& param) override;  // on disk
  void publish();                            // every rank has changed what it keeps: all is gathered anew
  void begin_grain();                        // the order of units starts anew
  void end_grain();
  void settle();  // ends what is on its way; with free_after_use nothing stays

 private:
  struct Gather {
    size_t bucket;
    int unit;
    int64_t first = 0;  // of its row (or, not freed after use, of its rows) in store_
    std::vector<Param*> params;
    Tensor row;    // on its way, from disk
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
  GrainLog& log_;
  std::vector<Gather> gathers_;  // in the order of the forward pass
  std::unordered_map<const Param*, size_t> gather_of_;
  Tensor store_;                    // T
  std::optional<BucketFile> file_;  // in its place: rows by gather

  int current_ = -1;  // the unit that was needed last
  bool in_grain_ = false;
  std::vector<int> order_, seen_;  // of units, in the grain before and in this one
  size_t position_ = 0;            // in order_
};

}  // namespace athanor
