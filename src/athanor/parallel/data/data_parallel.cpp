#include "athanor/parallel/data/data_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "athanor/kernels/table.h"
#include "athanor/parallel/data/disk_gradients.h"
#include "athanor/parallel/data/gradient_norm.h"
#include "athanor/parallel/data/hybrid_gradients.h"
#include "athanor/parallel/data/replicated_gradients.h"
#include "athanor/parallel/data/sharded_gradients.h"

namespace athanor::parallel::data {
namespace {

// Checks the options. One rank partitions nothing: stage 0, unless its parameters are offloaded.
DataParallelOptions for_size(DataParallelOptions options, int size) {
  check(0 <= options.stage && options.stage <= 3, "data parallel: got ZeRO stage {}, expected 0 to 3",
        options.stage);
  check(options.compression.kind == Compression::none || options.reduce == Reduce::fast,
        "data parallel: got compressed gradients with sums along the tree, expected fast sums");
  check(options.across == nullptr ? options.all == nullptr || size == 1
                                  : options.all != nullptr && size > 1 && options.stage > 0,
        "data parallel: got hybrid sharding of ZeRO stage {} in groups of {}, expected stages 1 to 3 and 2 "
        "at least",
        options.stage, size);
  const bool experts_hybrid = options.expert_across != nullptr && options.expert_all != nullptr;
  check(options.expert_group == nullptr || (options.across != nullptr) == experts_hybrid,
        "data parallel: got hybrid sharding with experts on other ranks {} sets of shards, expected {}",
        experts_hybrid ? "in" : "without", experts_hybrid ? "all in such sets" : "sets of theirs");
  const Compression kind = options.compression.kind;
  check(kind == Compression::none || kind == Compression::bf16 || kind == Compression::int8 ||
            (options.stage <= 1 && options.across == nullptr) || size == 1,
        "data parallel: got codes of whole gradients with {}, expected bf16, int8 or none",
        options.across != nullptr ? "hybrid sharding" : fmt::format("ZeRO stage {}", options.stage));
  check(options.parts >= 1 && size % options.parts == 0,
        "data parallel: got {} parts of a micro-batch in a group of {}, expected a divisor", options.parts,
        size);
  check(!options.gradients_place.is_used() || (options.compression.kind == Compression::none &&
                                               (options.across == nullptr || options.stage > 1)),
        "data parallel: got gradients on disk with {}, expected none",
        options.across != nullptr ? "hybrid sharding of stage 1" : "compression");
  check(!options.values_place.is_used() || options.stage == 3,
        "data parallel: got values on disk with ZeRO stage {}, expected 3", options.stage);
  if (size == 1 && !options.values_place.is_used()) options.stage = 0;
  return options;
}

// `experts`: the weights of experts that have an expert_group; false: all other weights.
std::vector<Weight*> weights_of(const std::vector<Weight*>& weights, const DataParallelOptions& options,
                                bool experts) {
  if (options.expert_group == nullptr) return experts ? std::vector<Weight*>{} : weights;
  return weights_apart(weights, experts);
}

}  // namespace

DataParallel::DataParallel(const std::vector<Weight*>& weights, Group& group, Arena& arena,
                           DataParallelOptions options)
    : DataParallel(weights, group, arena, std::move(options), nullptr) {}

DataParallel::DataParallel(const std::vector<Weight*>& weights, Group& group, Arena& arena,
                           DataParallelOptions options, MicroBatchLog* log)
    : group_(group),
      arena_(arena),
      options_(for_size(options, group.size())),
      buckets_(weights_of(weights, options, false), {.rows = options_.stage == 0 ? 1 : group.size(),
                                                     .bucket_bytes = options_.bucket_bytes,
                                                     .by_unit = options_.stage == 3,
                                                     .uses_apart = options_.values_place.is_used(),
                                                     .section = options_.section}),
      clock_(options_.trace, options_.clock),
      log_(log == nullptr ? own_log_ : *log) {
  if (options_.stage > 0)
    values_ = std::make_unique<GatheredValues>(
        buckets_, group_, arena_,
        GatherOptions{
            .dtype = options_.dtype, .free_after_use = options_.stage == 3, .place = options_.values_place},
        clock_, log_);
  const std::vector<Weight*> of_experts = weights_of(weights, options, true);
  if (of_experts.empty()) return;
  const bool alone = options.expert_group->size() == 1;
  options.across = alone ? nullptr : std::exchange(options.expert_across, nullptr);
  options.all = std::exchange(options.expert_all, nullptr);
  options.expert_across = nullptr;
  Group& expert_group = *std::exchange(options.expert_group, nullptr);
  options.parts = std::max(1, options.expert_parts);
  options.replica_group = 0;  // experts_ numbers only the micro-batches of this replica group
  options.num_replica_groups = 1;
  experts_.reset(new DataParallel(of_experts, expert_group, arena, options, &log_));
}

void DataParallel::allocate() {
  Group& exchanging = options_.across != nullptr ? *options_.across : everyone();
  if (options_.compression.kind != Compression::none && exchanging.size() > 1)
    compressed_ = std::make_unique<CompressedGradients>(
        buckets_, exchanging, arena_, options_.compression,
        options_.across != nullptr ? std::optional(group_.rank()) : std::nullopt);
  const int stage = group_.size() == 1 ? 0 : options_.stage;
  if (stage < 2 && options_.gradients_place.is_used())
    gradients_ = std::make_unique<DiskGradients>(buckets_, everyone(), arena_, options_.reduce, clock_,
                                                 options_.parts, options_.gradients_place);
  else if (stage == 1 && options_.across != nullptr)
    gradients_ =
        std::make_unique<HybridGradients>(buckets_, everyone(), group_, *options_.across, arena_,
                                          options_.reduce, clock_, options_.parts, compressed_.get());
  else if (stage < 2)
    gradients_ = std::make_unique<ReplicatedGradients>(buckets_, everyone(), arena_, options_.reduce, clock_,
                                                       options_.parts, compressed_.get());
  else
    gradients_ = std::make_unique<ShardedGradients>(buckets_, group_, arena_, options_, clock_, log_,
                                                    compressed_.get());
  if (experts_) experts_->allocate();
}

void DataParallel::share_micro_batches(std::vector<int64_t> counts) {
  check(experts_ == nullptr || options_.expert_parts > 0,
        "data parallel: got other shares of micro-batches with experts on other ranks");
  if (experts_) experts_->share_micro_batches(counts);
  gradients_->share_micro_batches(std::move(counts));
}

LeafRange DataParallel::summed_micro_batches(int64_t num_micro_batches) const {
  return micro_batches_of_rank(num_micro_batches, options_.num_replica_groups, options_.replica_group);
}

std::vector<int64_t> DataParallel::micro_batches_of_step(int64_t num_micro_batches) const {
  const int ranks = everyone().size() / options_.parts * options_.num_replica_groups;
  check(ranks <= num_micro_batches,
        "data parallel: got {} ranks for {} micro-batches in a step, expected at most {}", ranks,
        num_micro_batches, num_micro_batches);
  const auto [first, last] = summed_micro_batches(num_micro_batches);
  std::vector<int64_t> micro_batches = gradients_->micro_batches_of_step(last - first);
  for (int64_t& micro_batch : micro_batches) micro_batch += first;
  return micro_batches;
}

void DataParallel::begin_step(const GradientStep& step) {
  if (compressed_) compressed_->begin_step(step.update, step.loss_scale);
  clock_.reset();
  log_.begin();
  if (!gradients_->is_resident()) grads_.clear();
  final_.clear();
  const auto [first, last] = summed_micro_batches(step.num_micro_batches);
  GradientStep own = step;
  own.num_micro_batches = last - first;
  gradients_->begin_step(own);
  if (values_) values_->begin_step();
  if (!experts_) return;
  GradientStep of_experts = step;
  of_experts.num_micro_batches = expert_micro_batches(
      last - first, options_.expert_parts, everyone().size() / options_.parts, experts_->everyone().size());
  check_expert_micro_batches(gradients_->micro_batches_of_step(last - first),
                             experts_->micro_batches_of_step(of_experts.num_micro_batches),
                             options_.expert_parts);
  experts_->begin_step(of_experts);
}

// Whether this object reduces the parameter's gradient: a buffer (Param::is_state) has none, experts_ has its own.
bool DataParallel::has(const Param& param) const {
  return !param.uses().empty() && buckets_.places.contains(param.uses().front().get());
}

bool DataParallel::is_expert(const Param& param) const {
  return experts_ && param.is_stack();
}

void DataParallel::end_micro_batch() {
  if (values_) values_->end_micro_batch();
  log_.end();
  if (experts_) experts_->end_micro_batch();
}

void DataParallel::go_idle() {
  if (!gradients_->misses_round() && !(experts_ && experts_->gradients_->misses_round())) return;
  log_.repeat();
  end_micro_batch();
}

void DataParallel::finish() {
  go_idle();
  gradients_->finish();
  if (values_) values_->settle();  // before the update of the parameters
  grads_.clear();
  if (experts_) experts_->finish();
  if (!gradients_->is_resident()) return;
  for (const Bucket& bucket : buckets_.list)
    for (const Weight* weight : bucket.weights)
      if (const Param& param = weight->param(); weight == param.uses().front().get())
        grads_[&param] = add_uses(param);
}

void DataParallel::skip_step() {
  if (compressed_) compressed_->forget();
  if (experts_) experts_->skip_step();
}

double DataParallel::comm_seconds() const {
  return clock_.seconds() + (experts_ ? experts_->comm_seconds() : 0.0);
}

uint64_t DataParallel::buffer_bytes() const {
  return gradients_->buffer_bytes() + (experts_ ? experts_->buffer_bytes() : 0);
}

std::vector<CompressionState> DataParallel::compression_states() const {
  std::vector<CompressionState> states =
      compressed_ ? compressed_->states() : std::vector<CompressionState>{};
  for (const CompressionState& state : experts_ ? experts_->compression_states() : decltype(states){})
    states.push_back(state);
  return states;
}

void DataParallel::publish() {
  if (values_) values_->publish();
  if (experts_) experts_->publish();
}

// Adds the gradients of all uses of a shared parameter in the order of declaration, in the memory of the first use.
// With two uses on one rank the order does not matter: if one use (an embedding) has touched few rows only, those rows
// are added to the other use. The bits are the same, since no gradient is -0 (sums begin at +0).
Tensor DataParallel::add_uses(const Param& param) {
  const auto& uses = param.uses();
  if (uses.size() == 2 && everyone().size() == 1) {
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

const Tensor& DataParallel::grad(Param& param) const {
  if (is_expert(param)) return experts_->grad(param);
  if (gradients_->is_resident() || grads_.contains(&param)) return grads_.at(&param);
  grads_.clear();
  return grads_[&param] = read_grad(param);
}

// From disk. The row in the file's memory is not overwritten: it may be read again.
Tensor DataParallel::read_grad(const Param& param) const {
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

void DataParallel::keep_grad(Param& param, const Tensor& changed) {
  if (is_expert(param)) return experts_->keep_grad(param, changed);
  if (gradients_->is_resident()) return;
  Tensor there = gradients_->piece(*param.uses().front());
  if (there.raw() != changed.raw()) copy_from_host(there, changed.raw(), there.size_bytes());
  gradients_->keep_piece();
  final_.insert(&param);
}

std::vector<FlatRange> DataParallel::pieces(const Param& param) const {
  std::vector<FlatRange> pieces;
  if (param.whole()) return pieces;
  const auto [bucket, slot] = buckets_.of(*param.uses().front());
  for (int rank = 0; rank < group_.size(); ++rank)
    pieces.push_back(buckets_.list[bucket].layout.piece(slot, rank));
  return pieces;
}

ParamRanks DataParallel::ranks_of(const Param& param) const {
  if (is_expert(param)) return experts_->ranks_of(param);
  return {&group_, pieces(param)};
}

std::vector<double> DataParallel::sum_squares(const std::vector<std::unique_ptr<Param>>& params) const {
  std::vector<double> sums(params.size(), 0.0);
  for (const DataParallel* part : {this, static_cast<const DataParallel*>(experts_.get())}) {
    if (part == nullptr) continue;
    std::vector<NormTensor> tensors;
    std::vector<size_t> places;
    for (size_t i = 0; i < params.size(); ++i) {
      Param& param = *params[i];
      if (!part->has(param)) continue;
      tensors.push_back({.numel = param.numel(),
                         .pieces = part->keeps_own() ? std::vector<FlatRange>{} : part->pieces(param),
                         .mine = [part, &param] { return part->grad(param); },
                         .stays = part->grads_stay()});
      places.push_back(i);
    }
    std::vector<double> of_part = athanor::sum_squares(tensors, part->group_);
    // No rank has the summed gradient: adds the squares of all ranks' own gradients
    if (!part->sums_gradients())
      part->group_.all_reduce(of_part.data(), static_cast<int64_t>(of_part.size()), Dtype::f64, "squares")
          .wait();
    for (size_t i = 0; i < places.size(); ++i) sums[places[i]] = of_part[i];
  }
  return sums;
}

void DataParallel::load(const Param& param, float* values) const {
  if (is_expert(param)) return experts_->load(param, values);
  if (param.whole()) return param.load(values);
  const std::vector<FlatRange> all = pieces(param);
  int64_t most = 0;
  for (const FlatRange& piece : all) most = std::max(most, piece.count());
  std::vector<float> mine(static_cast<size_t>(most)), gathered(static_cast<size_t>(most * group_.size()));
  param.read_master(0, param.range().count(), mine.data());
  group_.all_gather(mine.data(), gathered.data(), most, Dtype::f32, "values of " + param.name()).wait();
  for (size_t rank = 0; rank < all.size(); ++rank)
    std::copy_n(gathered.begin() + static_cast<std::ptrdiff_t>(rank) * most, all[rank].count(),
                values + all[rank].first);
}

}  // namespace athanor::parallel::data
