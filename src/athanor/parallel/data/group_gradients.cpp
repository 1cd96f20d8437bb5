#include "athanor/parallel/data/group_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "athanor/kernels/table.h"
#include "athanor/parallel/data/disk_gradients.h"
#include "athanor/parallel/data/gradient_norm.h"
#include "athanor/parallel/data/replicated_gradients.h"
#include "athanor/parallel/data/sharded_gradients.h"

namespace athanor::parallel::data {
namespace {

// A shard that one rank holds alone needs no ranks that hold it, too: gradients are summed over all at once.
GradientRanks checked(GradientRanks ranks, const DataParallelOptions& options) {
  check(ranks.sum != nullptr, "data parallel: got no ranks to sum over");
  if (ranks.shard == nullptr) ranks.shard = ranks.sum;
  if (ranks.shard->size() == 1) ranks.replicate = nullptr;
  const int size = ranks.shard->size();
  check(ranks.replicate == nullptr || options.stage > 0,
        "data parallel: got hybrid sharding of ZeRO stage {}, expected stages 1 to 3", options.stage);
  check(ranks.parts >= 1 && ranks.sum->size() % ranks.parts == 0,
        "data parallel: got {} parts of a micro-batch in a group of {}, expected a divisor", ranks.parts,
        ranks.sum->size());
  if (const Group* replicate = ranks.replicate; replicate != nullptr)
    check(ranks.sum->size() == size * replicate->size() && ranks.shard->rank() == ranks.sum->rank() % size,
          "hybrid sharding: got {} groups of {} ranks and number {} of them for rank {} of {}",
          replicate->size(), size, ranks.shard->rank(), ranks.sum->rank(), ranks.sum->size());
  return ranks;
}

// One rank shards nothing: stage 0, unless its parameters are offloaded.
DataParallelOptions checked(DataParallelOptions options, const GradientRanks& ranks) {
  const bool is_hybrid = ranks.replicate != nullptr, is_alone = ranks.shard->size() == 1;
  check(0 <= options.stage && options.stage <= 3, "data parallel: got ZeRO stage {}, expected 0 to 3",
        options.stage);
  const bool exchanges = options.exchange.make != nullptr;
  check(!exchanges || options.reduce == Reduce::fast,
        "data parallel: got compressed gradients with sums along the tree, expected fast sums");
  check(!options.exchange.needs_whole || (options.stage <= 1 && !is_hybrid) || is_alone,
        "data parallel: got a compression method that needs unsharded gradients with {}, expected bf16, int8 "
        "or none",
        is_hybrid ? "hybrid sharding" : fmt::format("ZeRO stage {}", options.stage));
  check(!options.gradients_place.is_used() || (!exchanges && (!is_hybrid || options.stage > 1)),
        "data parallel: got gradients on disk with {}, expected none",
        is_hybrid ? "hybrid sharding of stage 1" : "compression");
  check(!options.values_place.is_used() || options.stage == 3,
        "data parallel: got values on disk with ZeRO stage {}, expected 3", options.stage);
  if (is_alone && !options.values_place.is_used()) options.stage = 0;
  return options;
}

}  // namespace

GroupGradients::GroupGradients(const std::vector<Weight*>& weights, const GradientRanks& ranks, Arena& arena,
                               const DataParallelOptions& options, WaitClock& clock, MicroBatchLog& log)
    : ranks_(checked(ranks, options)),
      sum_ranks_(*ranks_.sum),
      shard_ranks_(*ranks_.shard),
      arena_(arena),
      options_(checked(options, ranks_)),
      buckets_(weights, {.rows = options_.stage == 0 ? 1 : shard_ranks_.size(),
                         .bucket_bytes = options_.bucket_bytes,
                         .by_unit = options_.stage == 3,
                         .uses_apart = options_.values_place.is_used(),
                         .section = options_.section}),
      clock_(clock),
      log_(log) {
  if (options_.stage > 0)
    values_ = std::make_unique<GatheredValues>(
        buckets_, shard_ranks_, arena_,
        GatherOptions{
            .dtype = options_.dtype, .free_after_use = options_.stage == 3, .place = options_.values_place},
        clock_, log_);
}

void GroupGradients::allocate() {
  const bool is_hybrid = ranks_.replicate != nullptr;
  Group& exchanging = is_hybrid ? *ranks_.replicate : sum_ranks_;
  if (options_.exchange.make && exchanging.size() > 1)
    exchange_ = options_.exchange.make(buckets_, exchanging, arena_,
                                       is_hybrid ? std::optional(shard_ranks_.rank()) : std::nullopt);
  if (shard_ranks_.size() > 1 && options_.stage > 1) {
    gradients_ =
        std::make_unique<ShardedGradients>(buckets_, ranks_, arena_, options_, clock_, log_, exchange_.get());
    return;
  }
  if (is_hybrid && options_.reduce == Reduce::fast)
    sum_ = std::make_unique<HybridSum>(buckets_, shard_ranks_, *ranks_.replicate, clock_, exchange_.get());
  else
    sum_ = std::make_unique<RankSum>(buckets_, sum_ranks_, options_.reduce, clock_, exchange_.get());
  if (options_.gradients_place.is_used())
    gradients_ = std::make_unique<DiskGradients>(buckets_, sum_ranks_, arena_, options_.reduce, ranks_.parts,
                                                 clock_, *sum_, options_.gradients_place);
  else
    gradients_ = std::make_unique<ReplicatedGradients>(buckets_, sum_ranks_, arena_, options_.reduce,
                                                       ranks_.parts, clock_, *sum_);
}

void GroupGradients::begin_step(const GradientStep& step) {
  if (exchange_) exchange_->begin_step(step.update, step.loss_scale);
  if (!gradients_->is_resident()) grads_.clear();
  final_.clear();
  gradients_->begin_step(step);
  if (values_) values_->begin_step();
}

void GroupGradients::end_micro_batch() {
  if (values_) values_->end_micro_batch();
}

void GroupGradients::finish() {
  gradients_->finish();
  settle();  // before the update of the parameters
  grads_.clear();
  if (!gradients_->is_resident()) return;
  for (const Bucket& bucket : buckets_.list)
    for (const Weight* weight : bucket.weights)
      if (const Param& param = weight->param(); weight == param.uses().front().get())
        grads_[&param] = add_uses(param);
}

void GroupGradients::skip_step() {
  if (exchange_) exchange_->forget();
}

std::vector<ExchangeState> GroupGradients::exchange_states() const {
  return exchange_ ? exchange_->states() : std::vector<ExchangeState>{};
}

void GroupGradients::publish() {
  if (values_) values_->publish();
}

void GroupGradients::settle() {
  if (values_) values_->settle();
}

bool GroupGradients::has(const Param& param) const {
  return !param.uses().empty() && buckets_.places.contains(param.uses().front().get());
}

// Adds the gradients of all uses of a shared parameter in the order of declaration, in the memory of the first use.
// With two uses on one rank the order does not matter: if one use (an embedding) has touched few rows only, those rows
// are added to the other use. The bits are the same, since no gradient is -0 (sums begin at +0).
Tensor GroupGradients::add_uses(const Param& param) {
  const auto& uses = param.uses();
  if (uses.size() == 2 && sum_ranks_.size() == 1) {
    for (const int few : {0, 1}) {
      Weight &use = *uses[static_cast<size_t>(few)], &other = *uses[static_cast<size_t>(1 - few)];
      if (!use.knows_rows()) continue;
      Tensor sum = other.grad();
      use.move_rows(sum);
      return sum;
    }
  }
  Tensor sum = gradients_->piece(*uses.front());
  for (size_t i = 1; i < uses.size(); ++i)
    kernels_of(sum).elementwise.accumulate(sum.queue(), sum, gradients_->piece(*uses[i]));
  return sum;
}

const Tensor& GroupGradients::grad(const Param& param) const {
  if (gradients_->is_resident() || grads_.contains(&param)) return grads_.at(&param);
  grads_.clear();
  return grads_[&param] = read_grad(param);
}

// From disk. The row in the file's memory is not overwritten: it may be read again.
Tensor GroupGradients::read_grad(const Param& param) const {
  const auto& uses = param.uses();
  Tensor sum = gradients_->piece(*uses.front());
  if (final_.contains(&param)) return sum;
  for (size_t i = 1; i < uses.size(); ++i) {
    const Tensor left = sum;
    sum = empty_like(left, Category::gradients);
    kernels_of(sum).elementwise.add(sum.queue(), sum, left, gradients_->piece(*uses[i]));
  }
  return sum;
}

void GroupGradients::keep_grad(const Param& param, const Tensor& changed) {
  if (gradients_->is_resident()) return;
  Tensor there = gradients_->piece(*param.uses().front());
  if (there.raw() != changed.raw()) copy_from_host(there, changed.raw(), there.size_bytes());
  gradients_->keep_piece();
  final_.insert(&param);
}

std::vector<FlatRange> GroupGradients::pieces(const Param& param) const {
  std::vector<FlatRange> pieces;
  if (param.whole()) return pieces;
  const auto [bucket, slot] = buckets_.of(*param.uses().front());
  for (int rank = 0; rank < shard_ranks_.size(); ++rank)
    pieces.push_back(buckets_.list[bucket].layout.piece(slot, rank));
  return pieces;
}

void GroupGradients::sum_squares(const std::vector<std::unique_ptr<Param>>& params,
                                 std::vector<double>& sums) const {
  std::vector<NormTensor> tensors;
  std::vector<size_t> places;
  for (size_t i = 0; i < params.size(); ++i) {
    const Param& param = *params[i];
    if (!has(param)) continue;
    tensors.push_back({.numel = param.numel(),
                       .pieces = sums_gradients() ? pieces(param) : std::vector<FlatRange>{},
                       .mine = [this, &param] { return grad(param); },
                       .stays = gradients_->is_resident()});
    places.push_back(i);
  }
  std::vector<double> squares = athanor::sum_squares(tensors, shard_ranks_);
  // No rank has the summed gradient: adds the squares of all ranks' own gradients
  if (!sums_gradients())
    shard_ranks_.all_reduce(squares.data(), static_cast<int64_t>(squares.size()), Dtype::f64, "squares")
        .wait();
  for (size_t i = 0; i < places.size(); ++i) sums[places[i]] = squares[i];
}

}  // namespace athanor::parallel::data
