#include "athanor/parallel/data_parallel.h"

#include <algorithm>

#include "athanor/kernels/table.h"
#include "athanor/parallel/gradient_norm.h"
#include "athanor/parallel/replicated_gradients.h"
#include "athanor/parallel/sharded_gradients.h"

namespace athanor {
namespace {

// One rank has nobody to share with.
DataParallelOptions for_size(DataParallelOptions options, int size) {
  check(0 <= options.stage && options.stage <= 3, "data parallel: got ZeRO stage {}, expected 0 to 3",
        options.stage);
  check(
      options.compression.kind == Compression::none || (options.stage < 2 && options.reduce == Reduce::fast),
      "data parallel: got compressed gradients with ZeRO stage {}{}, expected stage 0 or 1 and fast sums",
      options.stage, options.reduce == Reduce::tree ? " and sums along the tree" : "");
  if (size == 1) options.stage = 0;
  return options;
}

}  // namespace

DataParallel::DataParallel(const std::vector<Weight*>& weights, Group& group, Arena& arena,
                           DataParallelOptions options)
    : group_(group),
      arena_(arena),
      options_(for_size(options, group.size())),
      buckets_(weights, {.rows = options_.stage == 0 ? 1 : group.size(),
                         .bucket_bytes = options_.bucket_bytes,
                         .by_unit = options_.stage == 3,
                         .section = options_.section}),
      clock_(options_.trace) {
  if (options_.stage > 0)
    values_ = std::make_unique<GatheredValues>(
        buckets_, group_, arena_,
        GatherOptions{.dtype = options_.dtype, .free_after_use = options_.stage == 3}, clock_, log_);
}

void DataParallel::allocate() {
  if (options_.compression.kind != Compression::none && group_.size() > 1)
    compressed_ = std::make_unique<CompressedGradients>(buckets_, group_, arena_, options_.compression);
  if (options_.stage < 2)
    gradients_ = std::make_unique<ReplicatedGradients>(buckets_, group_, arena_, options_.reduce, clock_,
                                                       compressed_.get());
  else
    gradients_ = std::make_unique<ShardedGradients>(buckets_, group_, arena_, options_.reduce, clock_, log_);
}

LeafRange DataParallel::summed_grains(int64_t num_grains) const {
  return grains_of_rank(num_grains, options_.num_islands, options_.island);
}

std::vector<int64_t> DataParallel::grains_of_step(int64_t num_grains) const {
  const int ranks = group_.size() * options_.num_islands;
  check(ranks <= num_grains, "data parallel: got {} ranks for {} grains in a step, expected at most {}",
        ranks, num_grains, num_grains);
  const auto [first, last] = summed_grains(num_grains);
  std::vector<int64_t> grains = gradients_->grains_of_step(last - first);
  for (int64_t& grain : grains) grain += first;
  return grains;
}

void DataParallel::begin_step(int64_t num_grains, int64_t update) {
  if (compressed_) compressed_->begin_step(update);
  clock_.reset();
  log_.begin();
  const auto [first, last] = summed_grains(num_grains);
  first_grain_ = first;
  gradients_->begin_step(last - first);
}

void DataParallel::begin_grain(Tape& tape, int64_t grain) {
  if (values_) values_->begin_grain();
  gradients_->begin_grain(tape, grain - first_grain_);
}

void DataParallel::end_grain() {
  gradients_->end_grain();
  if (values_) values_->end_grain();
  log_.end();
}

void DataParallel::begin_pass() {
  if (values_) values_->begin_grain();
  gradients_->begin_pass();
  log_.end();  // nobody is without a grain
}

void DataParallel::finish() {
  if (gradients_->begin_idle_round()) {
    values_->begin_grain();
    log_.repeat();
    values_->end_grain();
  }
  gradients_->finish();
  if (values_) values_->settle();  // before they are updated
  grads_.clear();
  for (const Bucket& bucket : buckets_.list)
    for (const Weight* weight : bucket.weights)
      if (const Param& param = weight->param(); weight == param.uses().front().get())
        grads_[&param] = add_uses(param);
}

std::vector<CompressionState> DataParallel::compression_states() const {
  return compressed_ ? compressed_->states() : std::vector<CompressionState>{};
}

void DataParallel::publish() {
  if (values_) values_->publish();
}

// Uses of a shared parameter, in the order of declaration: the first one's slot ends with the sum. Of two the order
// does not matter, so where one (of embeddings) has but few rows, they are added to the other: that gives the
// same bits, since no gradient is -0 (sums begin at +0).
Tensor DataParallel::add_uses(const Param& param) {
  const auto& uses = param.uses();
  if (uses.size() == 2 && group_.size() == 1) {
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
    kernels(sum).elementwise.accumulate(sum.queue(), sum, gradients_->piece(*uses[i]));
  return sum;
}

const Tensor& DataParallel::grad(Param& param) const {
  return grads_.at(&param);
}

std::vector<FlatRange> DataParallel::pieces(const Param& param) const {
  std::vector<FlatRange> pieces;
  if (param.whole()) return pieces;
  const auto [bucket, slot] = buckets_.of(*param.uses().front());
  for (int rank = 0; rank < group_.size(); ++rank)
    pieces.push_back(buckets_.list[bucket].layout.piece(slot, rank));
  return pieces;
}

std::vector<double> DataParallel::sum_squares(const std::vector<std::unique_ptr<Param>>& params) const {
  std::vector<NormTensor> tensors;
  for (const auto& param : params)
    if (!param->is_state())
      tensors.push_back({.numel = param->numel(), .pieces = pieces(*param), .mine = grads_.at(param.get())});
  std::vector<double> of_trained = athanor::sum_squares(tensors, group_);
  if (!sums_gradients())  // nobody has the sum: the ranks' squares, so that all find the same
    group_.all_reduce(of_trained.data(), static_cast<int64_t>(of_trained.size()), Dtype::f64, "squares")
        .wait();
  std::vector<double> sums;
  auto next = of_trained.begin();
  for (const auto& param : params) sums.push_back(param->is_state() ? 0.0 : *next++);
  return sums;
}

void DataParallel::load(const Param& param, float* values) const {
  if (param.whole()) return param.load(values);
  const std::vector<FlatRange> all = pieces(param);
  int64_t most = 0;
  for (const FlatRange& piece : all) most = std::max(most, piece.count());
  std::vector<float> mine(static_cast<size_t>(most)), gathered(static_cast<size_t>(most * group_.size()));
  const Tensor& master = param.master();
  copy_to_host(mine.data(), master, master.size_bytes());
  group_.all_gather(mine.data(), gathered.data(), most, Dtype::f32, "values of " + param.name()).wait();
  for (size_t rank = 0; rank < all.size(); ++rank)
    std::copy_n(gathered.begin() + static_cast<std::ptrdiff_t>(rank) * most, all[rank].count(),
                values + all[rank].first);
}

}  // namespace athanor
