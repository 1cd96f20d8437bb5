#include "athanor/parallel/data/sharded_gradients.h"

#include <algorithm>
#include <map>
#include <set>

#include "athanor/kernels/table.h"

namespace athanor::parallel::data {

ShardedGradients::ShardedGradients(const Buckets& buckets, const GradientRanks& ranks, Arena& arena,
                                   const DataParallelOptions& options, WaitClock& clock, MicroBatchLog& log,
                                   BucketExchange* exchange)
    : GradientStore(buckets, *ranks.shard, ranks.parts, clock),
      group_(*ranks.shard),
      arena_(arena),
      reduce_(options.reduce),
      log_(log),
      parts_(ranks.parts),
      across_(ranks.replicate),
      in_pipeline_(options.section != nullptr),
      exchange_(exchange),
      open_(buckets.list.size()),
      pending_(buckets.list.size(), 0) {
  if (options.gradients_place.is_used()) {
    std::vector<BucketRow> rows;
    for (const Bucket& bucket : buckets_.list) rows.push_back({names_of(bucket), bucket.layout.count});
    file_.emplace("gradients", std::move(rows), Dtype::f32, arena_, Category::gradients,
                  options.gradients_place);
  }
}

int ShardedGradients::micro_batches_of_round(int64_t round) const {
  return static_cast<int>(std::min(per_round(), num_micro_batches_ - round * per_round()));
}

LeafRange ShardedGradients::micro_batches_of_group(int64_t num_micro_batches) const {
  return across_ == nullptr ? LeafRange{0, num_micro_batches}
                            : micro_batches_of_rank(num_micro_batches, across_->size(), across_->rank());
}

std::vector<int64_t> ShardedGradients::micro_batches_of_step(int64_t num_micro_batches) const {
  const auto [first, last] = micro_batches_of_group(num_micro_batches);
  std::vector<int64_t> micro_batches;
  for (int64_t micro_batch = first + group_.rank() / parts_; micro_batch < last; micro_batch += per_round())
    micro_batches.push_back(micro_batch);
  return micro_batches;
}

void ShardedGradients::begin_step(const GradientStep& step) {
  all_micro_batches_ = step.num_micro_batches;
  const LeafRange micro_batches = micro_batches_of_group(all_micro_batches_);
  num_micro_batches_ = micro_batches.second - micro_batches.first;
  check(!in_pipeline_ || num_micro_batches_ % per_round() == 0,
        "data parallel: got {} micro-batches for {} ranks of a pipeline with sharded gradients, expected a "
        "multiple",
        num_micro_batches_, per_round());
  in_flight_.clear();  // left over if a step failed
  across_works_.clear();
  for (size_t b = 0; b < open_.size(); ++b) {
    open_[b] = {};
    pending_[b] = buckets_.list[b].weights.size();
    for (Weight* weight : buckets_.list[b].weights) weight->drop_grad();
  }
  done_.assign(open_.size(), 0);
  plans_.clear();
  left_ = {{.range = micro_batches, .buffer = 0}};
  size_t needed = 1;
  if (reduce_ == Reduce::tree) {
    RoundPlanner planner(micro_batches, all_micro_batches_, parts_);
    for (int64_t round = 0; !planner.complete(); ++round)
      plans_.push_back(planner.next(micro_batches_of_round(round) * parts_));
    needed = static_cast<size_t>(planner.num_buffers());
    left_ = planner.left();
  }
  if (file_) {
    file_->settle();
    return file_->reserve(needed);
  }
  while (shards_.size() < needed)
    shards_.push_back(zeros(arena_, {buckets_.row_total}, Dtype::f32, Category::gradients));
}

void ShardedGradients::need(Weight& weight) {
  const size_t index = buckets_.of(weight).bucket;
  const Bucket& bucket = buckets_.list[index];
  Tensor& flat = open_[index];
  check(!flat.defined(), "data parallel: '{}' is needed a second time before its bucket is reduced",
        weight.use());
  flat = empty(arena_, {bucket.layout.total()}, Dtype::f32, Category::communication);
  for (size_t slot = 0; slot < bucket.weights.size(); ++slot) {
    Weight& here = *bucket.weights[slot];
    here.set_grad(flat.flat(bucket.layout.offsets[slot], here.param().numel()).view(here.param().shape()));
    here.begin_grad();
  }
}

void ShardedGradients::grad_ready(Weight& weight, int64_t micro_batch) {
  const size_t index = buckets_.of(weight).bucket;
  check(micro_batch == done_[index], "data parallel: got '{}' of micro-batch {}, expected micro-batch {}",
        weight.use(), micro_batch, done_[index]);
  if (!open_[index].defined()) need(weight);  // it has no gradient here, as a bias that another rank adds
  weight.end_grad();
  if (--pending_[index] == 0) complete(index);
}

void ShardedGradients::complete_without_micro_batch(size_t index) {
  Weight& any = *buckets_.list[index].weights[0];
  need(any);
  if (reduce_ == Reduce::fast) fill_zero(open_[index]);  // Reduce::tree does not read it
  complete(index);
}

void ShardedGradients::complete(size_t index) {
  log_.note([this, index] { complete_without_micro_batch(index); });
  const auto is_exchanged = [&](const Reduction& reduction) {  // one sum of a bucket at a time
    return reduction.is_coded && reduction.bucket == index;
  };
  while (in_flight_.size() >= kInFlight || std::ranges::any_of(in_flight_, is_exchanged)) end_oldest();
  const Bucket& bucket = buckets_.list[index];
  for (Weight* weight : bucket.weights) weight->drop_grad();
  pending_[index] = bucket.weights.size();
  const int64_t round = done_[index]++;
  const bool tree = reduce_ == Reduce::tree;
  in_flight_.push_back({.bucket = index,
                        .sent = std::move(open_[index]),
                        .received = {},
                        .first_sum = {},
                        .round = round,
                        .work = {}});
  open_[index] = {};
  Reduction& reduction = in_flight_.back();
  if (tree)
    reduction.received = empty_like(reduction.sent, Category::communication);
  else if (round == 0)
    reduction.first_sum = open(0, index, /*fresh=*/true);
  else
    read_ahead(index);
  start_sum(reduction);
}

void ShardedGradients::start_sum(Reduction& reduction) {
  const size_t index = reduction.bucket;
  reduction.is_coded = is_coded() && across_ == nullptr;
  if (reduction.is_coded) return exchange_->start(index, reduction.sent);
  const int64_t count = buckets_.list[index].layout.count;
  const std::string name = "gradients " + std::to_string(index);
  auto* sent = reduction.sent.data<float>();
  if (reduce_ == Reduce::tree) {
    reduction.work = group_.all_to_all(sent, reduction.received.data<float>(), count, Dtype::f32, name);
  } else {
    float* out = reduction.round == 0 ? reduction.first_sum.data<float>() : sent + group_.rank() * count;
    reduction.work = group_.reduce_scatter(sent, out, count, Dtype::f32, name);
  }
}

// Prefetches the bucket's row, unless an earlier accumulation step has still to be added to it.
void ShardedGradients::read_ahead(size_t index) {
  const auto is_here = [&](const Reduction& reduction) { return reduction.bucket == index; };
  if (file_ && std::count_if(in_flight_.begin(), in_flight_.end(), is_here) == 1) file_->read_ahead(0, index);
}

Tensor ShardedGradients::open(int buffer, size_t index, bool fresh) {
  if (file_) return fresh ? file_->fresh(index) : file_->read(static_cast<size_t>(buffer), index);
  const Bucket& bucket = buckets_.list[index];
  return shards_[static_cast<size_t>(buffer)].flat(bucket.row_first, bucket.layout.count);
}

void ShardedGradients::close(int buffer, size_t index, const Tensor& row) {
  if (file_) file_->write(static_cast<size_t>(buffer), index, row);
}

void ShardedGradients::end_oldest() {
  Reduction done = std::move(in_flight_.front());
  in_flight_.pop_front();
  if (done.is_coded)
    exchange_->finish(done.bucket, clock_);
  else
    clock_.wait(done.work, done.sent.queue(), "wait for gradients");
  add_round(done);
  done.sent = {};
  if ((done.round + 1) * per_round() >= num_micro_batches_) start_across(done.bucket);
}

void ShardedGradients::add_round(const Reduction& done) {
  const size_t index = done.bucket;
  const int64_t count = buckets_.list[index].layout.count;
  const auto add = [&](Tensor into, const Tensor& from) {
    kernels_of(into).elementwise.accumulate(into.queue(), into, from);
  };
  if (reduce_ == Reduce::fast) {
    Tensor sum = done.round == 0 ? done.first_sum : open(0, index, /*fresh=*/false);
    const Tensor own = done.sent.flat(group_.rank() * count, count);
    if (done.round > 0)
      add(sum, own);
    else if (done.is_coded)
      copy(sum, own);
    return close(0, index, sum);
  }
  std::map<int, Tensor> sums;  // opened buffers
  std::set<int> changed;
  const auto at = [&](const RoundPlan::Place& place, bool fresh) {
    if (place.is_row) return done.received.flat(place.index * count, count);
    const auto found = sums.find(place.index);
    return found != sums.end() ? found->second : sums[place.index] = open(place.index, index, fresh);
  };
  for (const RoundPlan::Add& step : plans_[static_cast<size_t>(done.round)].adds) {
    Tensor into = at(step.into, step.copy);
    const Tensor from = at(step.from, /*fresh=*/false);
    if (step.copy)
      copy(into, from);
    else
      add(into, from);
    if (!step.into.is_row) changed.insert(step.into.index);
  }
  for (const int buffer : changed) close(buffer, index, sums.at(buffer));
}

void ShardedGradients::start_across(size_t index) {
  if (across_ == nullptr) return;
  if (is_coded()) return exchange_->start(index, open(0, index, /*fresh=*/false));
  if (file_) finish_across();  // one row at a time
  Across across{.bucket = index, .nodes = {}, .work = {}};
  std::vector<TreeNode> nodes;
  for (const auto& [range, buffer] : left_) {
    const Tensor& node = across.nodes.emplace_back(open(buffer, index, /*fresh=*/false));
    nodes.push_back({range.first, range.second, node.data<float>()});
  }
  float* sum = nodes.front().data;
  const int64_t count = buckets_.list[index].layout.count;
  const std::string name = "gradients between shard groups";
  across.work =
      reduce_ == Reduce::fast
          ? across_->all_reduce(sum, count, Dtype::f32, name)
          : across_->all_reduce_tree(std::move(nodes), all_micro_batches_ * parts_, sum, count, name);
  across_works_.push_back(std::move(across));
}

void ShardedGradients::finish_across() {
  for (Across& across : across_works_) {
    clock_.wait(across.work, "wait for gradients");
    close(0, across.bucket, across.nodes.front());
  }
  across_works_.clear();
}

void ShardedGradients::finish() {
  for (size_t bucket = 0; bucket < done_.size(); ++bucket)
    check(done_[bucket] * per_round() >= num_micro_batches_,
          "data parallel: bucket {} is not complete after the backward pass", bucket);
  while (!in_flight_.empty()) end_oldest();
  finish_across();
  if (exchange_ != nullptr) exchange_->finish(clock_);
}

Tensor ShardedGradients::piece(Weight& weight) {
  const auto [index, slot] = buckets_.of(weight);
  const Bucket& bucket = buckets_.list[index];
  const FlatRange range = bucket.layout.piece(slot, group_.rank());
  const Tensor row = file_ ? file_->look(0, index) : open(0, index, /*fresh=*/false);
  if (file_ && index > 0) file_->read_ahead(0, index - 1);  // parameters are asked for in their order
  return row.flat(bucket.layout.start_in_row(slot, group_.rank()), range.count());
}

}  // namespace athanor::parallel::data
