#include "athanor/parallel/compression/compressed_gradients.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/parallel/compression/block_sum.h"
#include "athanor/parallel/compression/exact_sum.h"
#include "athanor/parallel/compression/powersgd_sum.h"
#include "athanor/parallel/compression/topk_sum.h"

namespace athanor::parallel::compression {
namespace {

std::unique_ptr<CompressedSum> make_sum(const std::string& name, std::vector<SumTensor> tensors, Group& group,
                                        Arena& arena, const CompressionOptions& o) {
  switch (o.kind) {
    case Compression::bf16:
      return std::make_unique<BlockSum>(name, std::move(tensors), bf16_code(), group, arena,
                                        o.error_feedback);
    case Compression::int8:
      return std::make_unique<BlockSum>(name, std::move(tensors), int8_code(), group, arena,
                                        o.error_feedback);
    case Compression::topk:
      return std::make_unique<TopkSum>(name, std::move(tensors), o.ratio, group, arena, o.error_feedback);
    case Compression::powersgd:
      return std::make_unique<PowersgdSum>(name, std::move(tensors), o.rank, o.seed, group, arena,
                                           o.error_feedback);
    case Compression::none:
    case Compression::onebit_adam:
      break;
  }
  fail("compression: no sum of gradients of this kind");
}

}  // namespace

Matrices matrices_of(const ParamSpec& param) {
  const int64_t count = param.is_stack() ? param.shape()[0] : 1;
  const int64_t numel = param.numel() / count, rows = param.shape()[param.is_stack() ? 1 : 0];
  return {count, rows, numel / rows};
}

ParamSpec::Part matrix_part(const ParamSpec& param) {
  if (param.is_stack()) return {0, 1};  // a stack is partitioned between matrices
  return param.part(0).size > 1 ? param.part(0) : param.part(1);
}

bool is_compressed(const ParamSpec& param, const CompressionOptions& options) {
  const auto& shards = param.shards();
  if (!param.is_matrix() ||
      std::any_of(shards.begin(), shards.end(), [](const Shard& shard) { return shard.partial; }))
    return false;
  const auto [count, rows, cols] = matrices_of(param);
  if (options.kind == Compression::powersgd) return options.rank * (rows + cols) < rows * cols;
  if (options.kind == Compression::topk) return 2 * topk_count(param.numel(), options.ratio) < param.numel();
  return true;
}

CompressedGradients::CompressedGradients(const Buckets& buckets, Group& group, Arena& arena,
                                         const CompressionOptions& options, std::optional<int> row)
    : buckets_(buckets),
      group_(group),
      arena_(arena),
      options_(options),
      row_(row),
      parts_(buckets.list.size()) {
  if (options_.kind == Compression::onebit_adam) return;
  for (size_t b = 0; b < buckets_.list.size(); ++b) {
    std::vector<size_t> compressed, exact;
    for (size_t slot = 0; slot < buckets_.list[b].weights.size(); ++slot)
      (is_compressed(buckets_.list[b].weights[slot]->param(), options_) ? compressed : exact).push_back(slot);
    add_part(b, compressed, true);
    add_part(b, exact, false);
  }
}

void CompressedGradients::add_part(size_t bucket, const std::vector<size_t>& slots, bool compressed) {
  if (slots.empty()) return;
  const Bucket& of = buckets_.list[bucket];
  const std::string name = "gradients " + std::to_string(bucket);
  Part part;
  std::vector<SumTensor> tensors;
  for (const size_t slot : slots) {
    const ParamSpec& param = of.weights[slot]->param();
    std::string tensor_name = param.name() + " " + of.weights[slot]->use();
    if (const auto [part_of, parts] = matrix_part(param); parts > 1)
      tensor_name +=
          fmt::format(", part {} of {}", part_of, parts);  // an address of random numbers: it stays
    if (row_) {
      const FlatRange share = of.layout.piece(slot, *row_);
      if (share.count() == 0) continue;
      part.pieces.push_back({slot, share});
      tensors.push_back({.name = tensor_name, .rows = 1, .cols = share.count()});
      continue;
    }
    const auto [count, rows, cols] = matrices_of(param);
    if (compressed && options_.kind == Compression::powersgd && param.is_stack()) {
      for (int64_t i = 0; i < count; ++i) {
        std::string of_matrix = tensor_name;  // with the number of the matrix in the whole stack
        of_matrix.append(" ").append(std::to_string(param.box().offset[0] + i));
        part.pieces.push_back({slot, {i * rows * cols, (i + 1) * rows * cols}});
        tensors.push_back({.name = std::move(of_matrix), .rows = rows, .cols = cols});
      }
      continue;
    }
    part.pieces.push_back({slot, {0, param.numel()}});
    SumTensor& tensor =
        tensors.emplace_back(SumTensor{.name = tensor_name, .rows = count * rows, .cols = cols});
    for (int rank = 0; of.layout.rows > 1 && rank < group_.size(); ++rank)
      tensor.needed.push_back(of.layout.piece(slot, rank));
  }
  if (tensors.empty()) return;
  if (compressed)
    part.sum = make_sum(name + ", compressed", std::move(tensors), group_, arena_, options_);
  else
    part.sum = std::make_unique<ExactSum>(name + ", exact", group_, arena_);
  parts_[bucket].push_back(std::move(part));
}

void CompressedGradients::start(size_t bucket, const Tensor& grads) {
  check(std::find(started_.begin(), started_.end(), bucket) == started_.end(),
        "compression: bucket {} was started twice", bucket);
  const ShardLayout& layout = buckets_.list[bucket].layout;
  for (Part& part : parts_[bucket]) {
    std::vector<Tensor> pieces;
    for (const auto& [slot, range] : part.pieces)
      pieces.push_back(grads.flat(
          row_ ? layout.start_in_row(slot, *row_) : layout.offsets[slot] + range.first, range.count()));
    part.sum->start(std::move(pieces));
  }
  started_.push_back(bucket);
}

void CompressedGradients::for_sums(const std::function<void(CompressedSum&)>& body) {
  for (const auto& parts : parts_)
    for (const Part& part : parts) body(*part.sum);
}

void CompressedGradients::begin_step(int64_t update, double loss_scale) {
  active_ = update > options_.warmup_updates;
  started_.clear();  // left over if a step failed
  for_sums([&](CompressedSum& sum) { sum.set_unit(loss_scale); });
}

void CompressedGradients::forget() {
  for_sums([](CompressedSum& sum) { sum.forget(); });
}

void CompressedGradients::finish(size_t bucket, WaitClock& clock) {
  started_.erase(std::find(started_.begin(), started_.end(), bucket));
  for (Part& part : parts_[bucket]) part.sum->proceed(clock);
  for (Part& part : parts_[bucket]) part.sum->finish(clock);
}

void CompressedGradients::finish(WaitClock& clock) {
  for (const size_t bucket : started_)
    for (Part& part : parts_[bucket]) part.sum->proceed(clock);
  for (const size_t bucket : started_)
    for (Part& part : parts_[bucket]) part.sum->finish(clock);
  started_.clear();
}

std::vector<ExchangeState> CompressedGradients::states() const {
  std::vector<ExchangeState> states;
  for (size_t b = 0; b < parts_.size(); ++b)
    for (const Part& part : parts_[b])
      for (const SumState& state : part.sum->states()) {
        const Piece& piece = part.pieces[state.tensor];
        const FlatRange range =
            state.kind == StateKind::factor
                ? piece.range
                : FlatRange{piece.range.first + state.range.first, piece.range.first + state.range.last};
        states.push_back({state.kind, buckets_.list[b].weights[piece.slot], range, state.values,
                          group_.rank(), group_.size()});
      }
  return states;
}

ExchangeMaker compressed_exchange(const CompressionOptions& options) {
  const Compression kind = options.kind;
  if (kind == Compression::none) return {};
  return {.make =
              [options](const Buckets& buckets, Group& group, Arena& arena, std::optional<int> row) {
                return std::make_unique<CompressedGradients>(buckets, group, arena, options, row);
              },
          .needs_whole = kind != Compression::bf16 && kind != Compression::int8};
}

}  // namespace athanor::parallel::compression
