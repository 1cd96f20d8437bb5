#include "athanor/optim/lamb.h"

#include <algorithm>
#include <cmath>

#include "athanor/base/block_checksum.h"
#include "athanor/kernels/table.h"

namespace athanor::optim {
namespace {

// Calls visit(tensor, elements) for the logical tensors that share elements with [first, last) of a parameter.
template <typename Visit>
void for_tensors(int64_t tensor_elements, const FlatRange& range, const Visit& visit) {
  for (int64_t first = range.first; first < range.last;) {
    const int64_t tensor = first / tensor_elements,
                  last = std::min(range.last, (tensor + 1) * tensor_elements);
    visit(static_cast<size_t>(tensor), FlatRange{first, last});
    first = last;
  }
}

// Of what was written in several calls of the kernel, whose blocks are others than those of the whole.
void take_checksums(const Destination& to, const Tensor& from) {
  if (to.checksums == nullptr) return;
  const Tensor& written = to.tensor.defined() ? to.tensor : from;
  const auto* bytes = static_cast<const std::byte*>(written.raw());
  const uint64_t size = written.size_bytes();
  written.queue().parallel_for(static_cast<int64_t>(num_checksum_blocks(size)), [&](int64_t block) {
    const auto index = static_cast<uint64_t>(block);
    const uint64_t at = index * kChecksumBlockBytes;
    to.checksums[index] = block_checksum(bytes + at, std::min(kChecksumBlockBytes, size - at), index);
  });
}

}  // namespace

void Lamb::allocate(Arena& arena) {
  AdamW::allocate(arena);
  arena_ = &arena;
  for (Param* param : params()) {
    const int64_t count = param->is_stack() ? param->shape()[0] : 1;
    const ParamSpec::Part within = param->is_stack() ? param->part(1) : ParamSpec::Part{0, 1};
    check(within.size == 1, "lamb: got '{}' whose matrices are in {} parts, expected whole ones",
          param->name(), within.size);
    index_of_[param] = slots_.size();
    slots_.push_back({.param = param,
                      .ranks = ranks_of_ ? ranks_of_(*param) : TensorRanks{},
                      .num_tensors = count,
                      .tensor_elements = std::max<int64_t>(1, param->numel() / count),
                      .squares = std::vector<double>(static_cast<size_t>(2 * count), 0.0)});
  }
  place_cells();
}

// The cells that the same ranks share lie together, so one all-reduce exchanges them.
void Lamb::place_cells() {
  std::vector<Group*> groups;
  for (const Slot& slot : slots_)
    if (std::find(groups.begin(), groups.end(), slot.ranks.shards) == groups.end())
      groups.push_back(slot.ranks.shards);
  for (Group* group : groups) {
    const int64_t first = num_cells_;
    for (Slot& slot : slots_) {
      if (slot.ranks.shards != group) continue;
      for (int64_t tensor = 0; tensor < slot.num_tensors; ++tensor) {
        slot.first_cell.push_back(num_cells_);
        const int64_t begin = tensor * slot.tensor_elements, end = begin + slot.tensor_elements;
        num_cells_ += (end + kNormBlock - 1) / kNormBlock - begin / kNormBlock;
      }
      slot.first_cell.push_back(num_cells_);
    }
    exchanges_.push_back({group, first, num_cells_});
  }
}

void Lamb::step(const std::function<const Tensor&(Param&)>& grad, const OptimizerStep& step) {
  measure(grad, step);
  AdamW::step(grad, step);
}

void Lamb::measure(const std::function<const Tensor&(Param&)>& grad, const OptimizerStep& step) {
  const Tensor cells = zeros(*arena_, {2 * num_cells_}, Dtype::f64, Category::communication);
  const bool computes = arena_->queue().device() != Device::null;
  read_pieces(
      [&](std::span<const OptimizerPiece> pieces) {
        std::vector<LambTensors> all;
        for (const OptimizerPiece& piece : pieces)
          add_cells(all, piece, grad(piece.param).flat(piece.first, piece.count()),
                    computes ? cells.data<double>() : nullptr);
        kernels_of(cells).optimizer.lamb_squares(cells.queue(), all, kernel_step(step));
      },
      step.grads_stay);
  exchange(cells);
  if (computes) add_up(cells.data<double>());
  std::vector<double> parts;  // sums of the parts of tensors, until the all-reduce
  Group* group = nullptr;
  for (const Slot& slot : slots_) {
    if (slot.ranks.parts == nullptr) continue;
    group = slot.ranks.parts;
    for (const double squares : slot.squares) parts.push_back(slot.param->is_first_copy() ? squares : 0.0);
  }
  if (group != nullptr)
    group->all_reduce(parts.data(), std::ssize(parts), Dtype::f64, "norms of parts").wait();
  auto part = parts.begin();
  for (Slot& slot : slots_) {
    if (slot.ranks.parts != nullptr) {
      std::copy_n(part, slot.squares.size(), slot.squares.begin());
      part += std::ssize(slot.squares);
    }
    slot.ratios.assign(static_cast<size_t>(slot.num_tensors), 1.0f);
    for (size_t tensor = 0; tensor < slot.ratios.size(); ++tensor) {
      const double weight = slot.squares[2 * tensor], update = slot.squares[2 * tensor + 1];
      if (weight != 0.0 && update != 0.0)
        slot.ratios[tensor] = static_cast<float>(std::sqrt(weight) / std::sqrt(update));
    }
  }
}

void Lamb::add_cells(std::vector<LambTensors>& all, const OptimizerPiece& piece, const Tensor& grad,
                     double* cells) const {
  const Slot& slot = slots_[index_of_.at(&piece.param)];
  const int64_t before = piece.param.range().first + piece.first;  // elements of the parameter
  const auto add = [&](size_t tensor, int64_t first, int64_t last) {
    if (first == last) return;
    const int64_t begin = static_cast<int64_t>(tensor) * slot.tensor_elements;
    const int64_t cell = slot.first_cell[tensor] + first / kNormBlock - begin / kNormBlock;
    const auto part = [&](const Tensor& x) { return x.flat(first - before, last - first); };
    all.push_back({.master = part(piece.master),
                   .m = part(piece.states[0]),
                   .v = part(piece.states[1]),
                   .grad = part(grad),
                   .weight_decay = weight_decay_of(piece.param),
                   .squares = cells != nullptr ? cells + 2 * cell : nullptr});
  };
  for_tensors(slot.tensor_elements, {before, before + piece.count()},
              [&](size_t tensor, const FlatRange& range) {
                // The first cell ends with its norm block, which the tensor before may have begun.
                const int64_t next = (range.first + kNormBlock - 1) / kNormBlock * kNormBlock;
                const int64_t aligned = std::min(range.last, next);
                add(tensor, range.first, aligned);
                add(tensor, aligned, range.last);
              });
}

// Cells of other ranks are zero here.
void Lamb::exchange(const Tensor& cells) {
  for (const Exchange& exchange : exchanges_) {
    const int64_t count = 2 * (exchange.last_cell - exchange.first_cell);
    if (exchange.group == nullptr || count == 0) continue;
    exchange.group
        ->all_reduce(cells.flat(2 * exchange.first_cell, count).raw(), count, Dtype::f64,
                     "norms of weights and updates")
        .wait();
  }
}

void Lamb::add_up(const double* cells) {
  for (Slot& slot : slots_) {
    std::fill(slot.squares.begin(), slot.squares.end(), 0.0);
    for (size_t tensor = 0; tensor + 1 < slot.first_cell.size(); ++tensor)
      for (int64_t cell = slot.first_cell[tensor]; cell < slot.first_cell[tensor + 1]; ++cell) {
        slot.squares[2 * tensor] += cells[2 * cell];
        slot.squares[2 * tensor + 1] += cells[2 * cell + 1];
      }
  }
}

void Lamb::update(std::span<const OptimizerPiece> pieces, const GradOfPiece& grad,
                  const OptimizerStep& step) const {
  AdamW::update(pieces, grad, step);
  if (arena_->queue().device() == Device::null) return;
  for (const OptimizerPiece& piece : pieces) {
    if (slots_[index_of_.at(&piece.param)].num_tensors == 1) continue;
    take_checksums(piece.to_master, piece.master);
    for (size_t state = 0; state < piece.states.size(); ++state)
      take_checksums(piece.to_state(state), piece.states[state]);
  }
}

void Lamb::add_tensors(std::vector<AdamwTensors>& all, const AdamwTensors& tensors,
                       const OptimizerPiece& piece) const {
  const Slot& slot = slots_[index_of_.at(&piece.param)];
  if (slot.num_tensors == 1) {
    all.push_back(tensors);
    all.back().lr_ratio *= slot.ratios[0];
    return;
  }
  const int64_t before = piece.param.range().first + piece.first;
  for_tensors(slot.tensor_elements, {before, before + piece.count()},
              [&](size_t tensor, const FlatRange& range) {
                const auto part = [&](const Tensor& x) {
                  return x.defined() ? x.flat(range.first - before, range.count()) : x;
                };
                all.push_back({.master = part(tensors.master),
                               .m = part(tensors.m),
                               .v = part(tensors.v),
                               .value = part(tensors.value),
                               .grad = part(tensors.grad),
                               .weight_decay = tensors.weight_decay,
                               .to_master = {.tensor = part(tensors.to_master.tensor)},
                               .to_m = {.tensor = part(tensors.to_m.tensor)},
                               .to_v = {.tensor = part(tensors.to_v.tensor)},
                               .lr_ratio = tensors.lr_ratio * slot.ratios[tensor]});
              });
}

}  // namespace athanor::optim
