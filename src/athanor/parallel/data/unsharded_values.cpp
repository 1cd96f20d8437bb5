#include "athanor/parallel/data/unsharded_values.h"

#include <algorithm>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::parallel::data {

GatheredValues::GatheredValues(const Buckets& buckets, Group& group, Arena& arena, GatherOptions options,
                               WaitClock& clock, MicroBatchLog& log)
    : buckets_(buckets),
      group_(group),
      arena_(arena),
      options_(std::move(options)),
      clock_(clock),
      log_(log) {
  for (size_t b = buckets_.list.size(); b-- > 0;) {
    Gather gather{.bucket = b,
                  .unit = buckets_.list[b].unit,
                  .params = buckets_.params(b),
                  .row = {},
                  .whole = {},
                  .work = {}};
    if (gather.params.empty()) continue;  // a bucket of second uses of shared parameters
    for (const Param* param : gather.params) gather_of_[param] = gathers_.size();
    gathers_.push_back(std::move(gather));
  }
  options_.place.is_used() ? keep_rows_on_disk() : keep_rows();
}

void GatheredValues::keep_rows_on_disk() {
  check(options_.free_after_use, "gathered values: got values on disk that stay in memory, expected ZeRO 3");
  std::vector<BucketRow> rows;
  for (const Gather& gather : gathers_)
    rows.push_back({names_of(buckets_.list[gather.bucket]), layout_of(gather).count});
  file_.emplace("parameters", std::move(rows), options_.dtype, arena_, Category::parameters, options_.place);
  for (const Gather& gather : gathers_)
    for (size_t slot = 0; slot < gather.params.size(); ++slot)
      gather.params[slot]->keep_elsewhere(layout_of(gather).piece(slot, group_.rank()), options_.dtype, this);
}

Tensor GatheredValues::kept(const ParamStorage& param) {
  const size_t index = gather_of_.at(&param);
  const auto& params = gathers_[index].params;
  const auto slot = static_cast<size_t>(std::find(params.begin(), params.end(), &param) - params.begin());
  const Tensor row = file_->look(0, index);
  // Callers go through all parameters in order
  if (index + 1 < gathers_.size()) file_->read_ahead(0, index + 1);
  return row.flat(layout_of(gathers_[index]).start_in_row(slot, group_.rank()), param.range().count());
}

Tensor GatheredValues::row_of(const Gather& gather) {
  if (file_) return file_->read(0, static_cast<size_t>(&gather - gathers_.data()));
  const int64_t count = layout_of(gather).count;
  return store_.flat(gather.first + (options_.free_after_use ? 0 : group_.rank() * count), count);
}

void GatheredValues::keep_rows() {
  int64_t total = 0;
  for (Gather& gather : gathers_) {
    gather.first = total;
    total += options_.free_after_use ? layout_of(gather).count : layout_of(gather).total();
  }
  const uint64_t size_bytes = static_cast<uint64_t>(total) * size_of(options_.dtype);
  store_ = {arena_.allocate_shareable(size_bytes, Category::parameters), 0, Shape{total}, options_.dtype};
  group_.share(store_.memory(), size_bytes, "parameters");
  const int rank = group_.rank();
  for (Gather& gather : gathers_) {
    const ShardLayout& layout = layout_of(gather);
    const int64_t row = gather.first + (options_.free_after_use ? 0 : rank * layout.count);
    for (size_t slot = 0; slot < gather.params.size(); ++slot) {
      const FlatRange range = layout.piece(slot, rank);
      gather.params[slot]->keep(range, store_.flat(row + layout.start_in_row(slot, rank), range.count()),
                                this);
    }
  }
}

void GatheredValues::start(Gather& gather) {
  if (gather.state != Gather::State::absent) return;
  gather.state = Gather::State::on_its_way;
  const ShardLayout& layout = layout_of(gather);
  gather.row = row_of(gather);
  if (file_ && group_.size() == 1) {
    gather.whole = gather.row;
    return;
  }
  if (!gather.whole.defined())
    gather.whole = options_.free_after_use
                       ? empty(arena_, {layout.total()}, options_.dtype, Category::communication)
                       : store_.flat(gather.first, layout.total());
  gather.work = group_.all_gather(gather.row.raw(), gather.whole.raw(), layout.count, options_.dtype,
                                  "parameters " + std::to_string(gather.bucket));
}

void GatheredValues::wait(Gather& gather) {
  if (gather.state != Gather::State::on_its_way) return;
  clock_.wait(gather.work, arena_.queue(), "wait for parameters");
  gather.state = Gather::State::ready;
  gather.row = {};
  const ShardLayout& layout = layout_of(gather);
  for (size_t slot = 0; slot < gather.params.size(); ++slot) {
    Param& param = *gather.params[slot];
    param.set_value(gather.whole.flat(layout.offsets[slot], param.numel()).view(param.shape()));
  }
}

void GatheredValues::drop(Gather& gather) {
  wait(gather);
  gather.state = Gather::State::absent;
  for (Param* param : gather.params) param->set_value({});
  gather.whole = {};
}

template <typename Action>
void GatheredValues::for_unit(int unit, Action action) {
  for (Gather& gather : gathers_)
    if (gather.unit == unit) action(gather);
}

void GatheredValues::need(const ParamStorage& param) {
  Gather& gather = gathers_[gather_of_.at(&param)];
  if (options_.free_after_use) return need_unit(gather.unit);
  if (gather.state == Gather::State::absent) start_all();
  wait(gather);
}

void GatheredValues::need_unit(int unit) {
  if (in_step_ && (seen_.empty() || seen_.back() != unit)) {
    seen_.push_back(unit);
    log_.note([this, unit] { need_unit(unit); });
  }
  if (unit != current_) need_other_unit(unit);
  for_unit(unit, [this](Gather& gather) {
    start(gather);  // starts again where changed() has invalidated it
    wait(gather);
  });
}

void GatheredValues::need_other_unit(int unit) {
  for (Gather& gather : gathers_)
    if (gather.unit != unit && gather.state != Gather::State::absent) drop(gather);
  for_unit(unit, [this](Gather& gather) { start(gather); });
  current_ = unit;
  if (const int next = next_unit(unit); next >= 0) for_unit(next, [this](Gather& gather) { start(gather); });
  read_ahead();
}

// Prefetches the rows of the unit after the next from disk.
void GatheredValues::read_ahead() {
  if (!file_ || position_ + 1 >= order_.size()) return;
  for (size_t i = 0; i < gathers_.size(); ++i)
    if (gathers_[i].unit == order_[position_ + 1] && gathers_[i].state == Gather::State::absent)
      file_->read_ahead(0, i);
}

// The unit that came after this one in the previous micro-batch; -1 if not known.
int GatheredValues::next_unit(int unit) {
  if (position_ >= order_.size() || order_[position_] != unit)
    position_ = static_cast<size_t>(std::find(order_.begin(), order_.end(), unit) - order_.begin());
  if (position_ + 1 >= order_.size()) return -1;
  return order_[++position_];
}

void GatheredValues::begin_step() {
  in_step_ = true;
  seen_.clear();
  position_ = 0;
}

void GatheredValues::end_micro_batch() {
  order_ = std::exchange(seen_, {});
  position_ = 0;
}

void GatheredValues::changed(const ParamStorage& param) {
  Gather& gather = gathers_[gather_of_.at(&param)];
  wait(gather);
  gather.state = Gather::State::absent;
  if (file_) file_->changed();  // its row is the one of the last look()
}

void GatheredValues::publish() {
  settle();
  for (Gather& gather : gathers_) gather.state = Gather::State::absent;
  start_all();
}

void GatheredValues::start_all() {
  if (options_.free_after_use) return;
  for (Gather& gather : gathers_) start(gather);
}

void GatheredValues::settle() {
  for (Gather& gather : gathers_) options_.free_after_use ? drop(gather) : wait(gather);
  if (file_) file_->settle();
  in_step_ = false;
  current_ = -1;
}

}  // namespace athanor::parallel::data
