// What a parameter is, known without memory: its declaration, and which part of it this rank has. Sharding, plans, HF
// import and the slices of checkpoints read this and nothing else.
//
//   ParamSpec q("blocks.0.attn.q.weight", {C, C}, Init::normal(0.02));
//   q.shard({.dim = 0, .axis = "tp", .rank = 1, .size = 4});
//   q.box();               // rows [C/4, C/2)
//
// Errors: Error for a shard that cannot be. Thread rule: plain data.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "athanor/autograd/init.h"
#include "athanor/autograd/shard.h"
#include "athanor/tensor/box.h"

namespace athanor::autograd {

// A table is looked up by row (embeddings). A state is a buffer in PyTorch's sense (a router's bias): f32, saved with
// the weights, updated by a rule of its own. It has no uses, no gradient and no optimizer state.
enum class ParamKind : uint8_t { weight, table, state };

class ParamSpec {
 public:
  ParamSpec(std::string name, const Shape& shape, Init init, ParamKind kind = ParamKind::weight, int unit = 0)
      : name_(std::move(name)), whole_(shape), init_(init), kind_(kind), unit_(unit) {}
  friend bool operator==(const ParamSpec&, const ParamSpec&) = default;

  const std::string& name() const { return name_; }
  const Init& init() const { return init_; }
  const Shape& shape() const { return shape_; }  // of this rank's part, padding included
  int64_t numel() const { return shape_.numel(); }
  bool is_state() const { return kind_ == ParamKind::state; }
  bool is_table() const { return kind_ == ParamKind::table; }
  int unit() const { return unit_; }  // of the model, in which it was declared (nn/module.h)
  bool is_matrix() const { return shape_.dims() >= 2; }  // weight decay applies
  // A grouped expert weight [E,O,I]: one matrix per expert. Expert parallelism partitions it.
  bool is_stack() const { return shape_.dims() == 3; }

  // Partitions the parameter. Error where the dimension does not divide.
  void shard(const Shard& shard);
  const std::vector<Shard>& shards() const { return shards_; }
  const Shape& whole_shape() const { return whole_; }  // of the logical tensor
  const Box& box() const { return box_; }              // this rank's part of it, without padding
  bool is_padded() const { return box_.extent != shape_; }
  bool is_first_copy() const;  // whether this is the first of the ranks that hold this box
  // This rank's part along a dimension, of `size` parts; {0, 1} where the dimension is not partitioned.
  struct Part {
    int rank, size;
  };
  Part part(int dim) const;
  // A range of the flattened part, without the padding at its end; and that as boxes of the logical tensor, in order.
  FlatRange unpadded(const FlatRange& range) const;
  std::vector<Box> boxes(const FlatRange& range) const;

 private:
  std::string name_;
  Shape whole_, shape_ = whole_;
  Box box_ = whole_box(whole_);
  std::vector<Shard> shards_;
  Init init_;
  ParamKind kind_;
  int unit_;
};

}  // namespace athanor::autograd
