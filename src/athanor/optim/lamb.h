// LAMB (You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", 2020).
//
//   Lamb optimizer({.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-6}, params, {}, ranks_of);
//
//   m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;  r = (m / c1) / (sqrt(v / c2) + eps) + weight_decay w
//   w -= lr ratio r  with ratio = |w| / |r| of the whole logical tensor, 1 where either norm is 0
//
// So it is AdamW with a rate per logical tensor: Q, K, V, gate and up are parameters of their own, and each expert of a
// stack [E,O,I] has a ratio of its own. The paper's function phi is the identity. Every tensor is scaled, vectors too.
//
// A first pass over gradients and state measures the norms and changes nothing; the second one is AdamW's. The squares
// of each norm block (kernels/elementwise.h) are exchanged between the ranks that hold shards of a tensor, 16 bytes for
// 256 elements, and added in one order: any number of ranks and stage of ZeRO, and any pipeline, have the bits of one
// process (law 5). The sums of the parts of a tensor (tensor parallelism) are added over the ranks that hold them.
//
// State per element: adam.m and adam.v, as AdamW's, f32 or 8 bits, in memory or offloaded. On the CPU. Errors and thread
// rule: as Optimizer; step() is collective.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "athanor/optim/adamw.h"

namespace athanor::optim {

class Lamb final : public AdamW {
 public:
  using RanksOf = std::function<TensorRanks(const Param&)>;  // null: this rank has all of each parameter

  Lamb(const OptimizerOptions& options, std::vector<Param*> params, OptimizerStateOptions state = {},
       RanksOf ranks_of = nullptr)
      : AdamW(options, std::move(params), std::move(state)), ranks_of_(std::move(ranks_of)) {}
  void allocate(Arena& arena) override;
  void step(const std::function<const Tensor&(Param&)>& grad, const OptimizerStep& step) override;

 protected:
  void update(std::span<const OptimizerPiece> pieces, const GradOfPiece& grad,
              const OptimizerStep& step) const override;
  void add_tensors(std::vector<AdamwTensors>& all, const AdamwTensors& tensors,
                   const OptimizerPiece& piece) const override;

 private:
  // A parameter is one logical tensor, or a stack of them. A cell is a norm block, or the part of one that lies in one
  // logical tensor.
  struct Slot {
    Param* param;
    TensorRanks ranks;
    int64_t num_tensors, tensor_elements;
    std::vector<int64_t> first_cell = {};  // of each logical tensor, counted over all slots; then the end
    std::vector<double> squares = {};      // of w and of r, for each logical tensor
    std::vector<float> ratios = {};
  };
  void place_cells();
  void measure(const std::function<const Tensor&(Param&)>& grad, const OptimizerStep& step);
  void add_cells(std::vector<LambTensors>& all, const OptimizerPiece& piece, const Tensor& grad,
                 double* cells) const;
  void exchange(const Tensor& cells);
  void add_up(const double* cells);

  RanksOf ranks_of_;
  Arena* arena_ = nullptr;
  std::vector<Slot> slots_;
  std::unordered_map<const Param*, size_t> index_of_;
  struct Exchange {
    Group* group;  // null: cells of parameters that are not sharded
    int64_t first_cell, last_cell;
  };
  std::vector<Exchange> exchanges_;
  int64_t num_cells_ = 0;
};

}  // namespace athanor::optim
