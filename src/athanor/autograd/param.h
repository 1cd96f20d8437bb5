// Parameters: a model declares them; parallelism, optimizers and checkpoints attach their state to them.
//
//   Param q("blocks.0.attn.q.weight", {C, C}, Init::normal(0.02));   // declared: allocates nothing
//   Weight& use = q.add_use("attn");                                 // one per place that computes with it
//   q.allocate(arena, Dtype::bf16, /*with_master=*/true);
//   q.initialize(seed);
//
// Each use of a shared parameter (tied embeddings) accumulates a gradient of its own; once per step the uses are added
// in declaration order (law 1). Initial values are drawn by (seed, name, global element index), so every layout starts
// from the same weights (law 2). Errors: Error. Thread rule: one thread per Param; any thread may read values.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "athanor/autograd/init.h"
#include "athanor/autograd/shard.h"
#include "athanor/autograd/sources.h"
#include "athanor/autograd/weight.h"
#include "athanor/tensor/box.h"
#include "athanor/tensor/tensor.h"

namespace athanor::autograd {

class Param {
 public:
  Param(std::string name, Shape shape, Init init, bool is_state = false)
      : name_(std::move(name)),
        whole_(shape),
        shape_(shape),
        box_(whole_box(shape)),
        init_(init),
        is_state_(is_state) {}
  Param(const Param&) = delete;
  Param& operator=(const Param&) = delete;

  const std::string& name() const { return name_; }
  const Shape& shape() const { return shape_; }  // of this rank's part, padding included
  int64_t numel() const { return shape_.numel(); }
  // A buffer in PyTorch's sense (a router's bias): f32, saved with the weights, updated by a rule of its own. It has no
  // uses, no gradient and no optimizer state.
  bool is_state() const { return is_state_; }
  bool is_matrix() const { return shape_.dims() >= 2; }  // weight decay applies
  // A grouped expert weight [E,O,I]: one matrix per expert. Expert parallelism partitions it.
  bool is_stack() const { return shape_.dims() == 3; }

  Weight& add_use(const std::string& use);
  const std::vector<std::unique_ptr<Weight>>& uses() const { return uses_; }
  size_t num_uses() const { return uses_.size() + uses_elsewhere_.size(); }  // on all ranks
  // Keeps the uses for whose name `here` is true; the others belong to other ranks (pipeline stages).
  void keep_uses(const std::function<bool(const std::string& use)>& here);

  // Partitions the parameter, before it has memory. Error where the dimension does not divide.
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
  Tensor unpadded(const Tensor& x) const;  // x, of shape(), without the padding

  // Allocates the value and, if T is not f32 and `with_master`, the f32 master. Values are unset. With a ZeRO shard
  // (keep()) only the shard's master is still missing.
  void allocate(Arena& arena, Dtype dtype, bool with_master);
  void initialize(uint64_t seed);        // draws the values
  void store(const float* values);       // sets master and value from host memory: the elements of box()
  void store_whole(const float* whole);  // the same from all elements of the logical tensor
  void store_kept(const float* values);  // the same from the elements kept_elements()
  void load(
      float* values) const;  // the master, or the value where there is no master; Error with a ZeRO shard

  // ZeRO, before allocate(): this rank's shard is `range` of the flattened parameter; its values are `kept` (T, flat).
  // `source` sets the full value (unshard) and drops it.
  void keep(FlatRange range, Tensor kept, ValueSource* source);
  // The same with an offloaded shard: `source` holds it, and it has no memory of its own.
  void keep_elsewhere(FlatRange range, Dtype dtype, ValueSource* source);
  // Offload, after allocate() without a master: where T is not f32, `store` holds the master from now on.
  void keep_master(MasterStore* store);
  void set_value(Tensor whole) { value_ = std::move(whole); }
  void drop_value() { value_ = {}; }
  bool whole() const { return source_ == nullptr; }  // not sharded by ZeRO
  FlatRange range() const { return whole() ? FlatRange{0, numel()} : range_; }
  FlatRange kept_elements() const;  // range() without padding, as elements of box()

  const Tensor& value() const {  // the full value, T; unsharded first if necessary
    if (source_ != nullptr) source_->need(*this);
    return value_;
  }
  // This rank's shard as the optimizer sees it, of kept_shape(). kept(): the values, T. master(): f32; kept() itself
  // where T is f32, undefined where a MasterStore holds it. After overwriting an offloaded shard call note_change().
  Tensor kept() const { return elsewhere_ ? source_->kept(*this) : kept_; }
  Tensor master() const { return elsewhere_ && dtype_ == Dtype::f32 ? source_->kept(*this) : master_; }
  // kept() where it is a rounded copy of the master; undefined where it is the master itself.
  Tensor copy_of_master() const { return dtype_ == Dtype::f32 ? Tensor() : kept(); }
  bool is_kept_elsewhere() const { return elsewhere_; }  // the shard is offloaded
  void note_change() const {
    if (elsewhere_) source_->changed(*this);
  }
  Shape kept_shape() const { return whole() ? shape_ : Shape{range_.count()}; }
  Dtype dtype() const { return dtype_; }                                // T
  const Tensor& resident_master() const { return master_; }             // undefined where it is offloaded
  void read_master(int64_t first, int64_t count, float* values) const;  // of the shard, wherever it is
  bool defined() const { return kept_.defined() || elsewhere_; }

 private:
  Tensor floats() const;                   // the master, or workspace in its place
  void take_floats(const Tensor& master);  // after a change of floats(): updates value and offloaded master

  std::string name_;
  Shape whole_, shape_;
  Box box_;
  std::vector<Shard> shards_;
  Init init_;
  bool is_state_;
  std::vector<std::unique_ptr<Weight>> uses_, uses_elsewhere_;
  ValueSource* source_ = nullptr;
  MasterStore* masters_ = nullptr;
  FlatRange range_;
  bool elsewhere_ = false;  // the shard is offloaded: source_ holds it
  Dtype dtype_ = Dtype::f32;
  Tensor value_, kept_, master_;
};

inline const Tensor& Weight::value() const {
  check(param_.defined(), "weight: '{}' is declared but has no memory yet", param_.name());
  return param_.value();
}

}  // namespace athanor::autograd
