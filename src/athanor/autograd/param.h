// Parameters: what a model declares, and what training hangs on them.
//
//   Param q("blocks.0.attn.q.weight", {C, C}, Init::normal(0.02));   // declared: allocates nothing
//   Weight& use = q.add_use("attn");                                 // one per place that computes with it
//   q.allocate(arena, Dtype::bf16, /*with_master=*/true);            // memory
//   q.initialize(seed);                                              // and values
//
// Each use of a shared parameter (tied embeddings) is its own gradient accumulator; the uses are added once
// per step in the order they were declared (law 1). Initial values are drawn by (seed, name, global element
// index), so any layout starts from the same weights (law 2). Thread rule: one thread per Param, but reading
// values is free.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "athanor/autograd/sources.h"
#include "athanor/tensor/box.h"
#include "athanor/tensor/tensor.h"

namespace athanor {

class Param;

// How a parameter is cut over an axis of the mesh, as data: initialisation, checkpoints, operations and
// optimizers read this and nothing else. The rank holds part `rank` of `size` equal parts along `dim`; parts
// of dim 0 may be padded at the end of the tensor. Where ranks of the axis hold the same part, this one's is
// copy `copy` of `copies`.
struct Shard {
  int dim = 0;
  std::string axis = {};  // "tp"
  int rank = 0, size = 1;
  int copy = 0, copies = 1;
  bool partial = false;  // a copy's gradient is a part of it: the copies' are summed once per step
  friend bool operator==(const Shard&, const Shard&) = default;
};

// One use of a parameter. Ops save a Weight&, never its tensor, so that a sharded parameter can be freed and
// gathered again between forward and backward.
class Weight {
 public:
  Weight(Param& param, std::string use) : param_(param), use_(std::move(use)) {}
  Weight(const Weight&) = delete;
  Weight& operator=(const Weight&) = delete;

  Param& param() const { return param_; }
  const std::string& use() const { return use_; }
  const Tensor& value() const;  // T, the param's shape
  // The gradient slot, f32, the param's shape; backward adds to it.
  Tensor& grad();
  // The same for a product that can overwrite: `add` is false where nothing was added since begin_grad().
  struct GradSlot {
    Tensor& tensor;
    bool add;
  };
  GradSlot grad_slot();
  // The same for an op that adds to the rows `ids` alone. Where nothing else is added until the step ends, those rows
  // are known, and the others need not be cleared or summed.
  Tensor& grad_rows(const Tensor& ids);
  bool knows_rows() const { return zero_elsewhere_; }  // the slot is zero but for rows of grad_rows()
  void move_rows(Tensor& sum);                         // then: adds them to `sum` and leaves the slot zero
  bool has_grad() const { return grad_.defined(); }
  void set_grad(Tensor slot);
  void drop_grad();  // the slot's memory goes; the next use asks the source for another
  void set_grad_source(GradSource* source) { source_ = source; }
  void begin_grad() { begun_ = false; }  // what the slot holds now does not count
  void end_grad() {                      // a slot that nothing was added to is zero
    if (!begun_) grad();
  }

 private:
  Param& param_;
  std::string use_;
  GradSource* source_ = nullptr;
  Tensor grad_;
  bool begun_ = true;
  bool zero_elsewhere_ = false;  // than in rows_
  Tensor rows_;                  // ids
};

struct Init {
  enum class Kind { zeros, ones, normal } kind = Kind::zeros;
  float std = 0.0f;
  static Init zeros() { return {}; }
  static Init ones() { return {Kind::ones, 0.0f}; }
  static Init normal(double std) { return {Kind::normal, static_cast<float>(std)}; }
};

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
  const Shape& shape() const { return shape_; }  // of what this rank holds
  int64_t numel() const { return shape_.numel(); }
  // Kept with the weights, in f32, but moved by a rule of its own (a router's bias): it has no uses, no gradient and no
  // state of an optimizer.
  bool is_state() const { return is_state_; }
  bool is_matrix() const { return shape_.dims() >= 2; }  // weight decay applies to these
  // Of matrices, one for each expert of a layer: they may lie on other ranks than everything else.
  bool is_stack() const { return shape_.dims() == 3; }

  Weight& add_use(const std::string& use);
  const std::vector<std::unique_ptr<Weight>>& uses() const { return uses_; }
  size_t num_uses() const { return uses_.size() + uses_elsewhere_.size(); }  // on all ranks
  // Lists only the uses whose name `here` says yes to; the others belong to other ranks (pipeline stages).
  void keep_uses(const std::function<bool(const std::string& use)>& here);

  // Cuts it, before it has memory. Error where it does not divide.
  void shard(const Shard& shard);
  const std::vector<Shard>& shards() const { return shards_; }
  const Shape& whole_shape() const { return whole_; }
  const Box& box() const { return box_; }  // what of the whole this rank holds, without padding
  bool is_padded() const { return box_.extent != shape_; }
  bool is_first_copy() const;  // of all ranks that hold this box, this one speaks for them
  // Which of `size` parts along a dimension this rank has: {0, 1} where that is not cut.
  struct Part {
    int rank, size;
  };
  Part part(int dim) const;
  // A tensor of the param's shape without its padding.
  Tensor unpadded(const Tensor& x) const;

  // Allocates value (and, where T is not f32 and `with_master`, the f32 master) and leaves them unset. Of a
  // parameter that is kept in part only what is still missing.
  void allocate(Arena& arena, Dtype dtype, bool with_master);
  void initialize(uint64_t seed);        // draws the values
  void store(const float* values);       // sets master and value from host memory: the elements of box()
  void store_whole(const float* whole);  // the same from all elements of the parameter
  void store_kept(const float* values);  // the same from those of kept_elements()
  void load(
      float* values) const;  // of the master, or the value where there is none, as floats; Error in part

  // ZeRO, before allocate(): of the flattened parameter this rank keeps `range`, in `kept` (T, flat) and in the
  // master; the whole value is set and dropped by `source`.
  void keep(FlatRange range, Tensor kept, ValueSource* source);
  // The same where `source` has what is kept, which has no memory of its own.
  void keep_elsewhere(FlatRange range, Dtype dtype, ValueSource* source);
  // Offload, after allocate() without a master: where T is not f32, `store` keeps it from now on.
  void keep_master(MasterStore* store);
  void set_value(Tensor whole) { value_ = std::move(whole); }
  void drop_value() { value_ = {}; }
  bool whole() const { return source_ == nullptr; }
  FlatRange range() const { return whole() ? FlatRange{0, numel()} : range_; }
  FlatRange kept_elements() const;  // of box(): the range without padding

  const Tensor& value() const {  // T, whole
    if (source_ != nullptr) source_->need(*this);
    return value_;
  }
  // What the optimizer sees, both of the range that is kept: flat, or of the parameter's shape where that is all.
  // Of T; and f32: kept() itself where T is f32, undefined where a MasterStore keeps it. Who has overwritten what is
  // kept elsewhere says so.
  Tensor kept() const { return elsewhere_ ? source_->kept(*this) : kept_; }
  Tensor master() const { return elsewhere_ && dtype_ == Dtype::f32 ? source_->kept(*this) : master_; }
  // kept() where that is a rounded copy of the master; undefined where it is the master.
  Tensor copy_of_master() const { return dtype_ == Dtype::f32 ? Tensor() : kept(); }
  bool is_kept_elsewhere() const { return elsewhere_; }
  void note_change() const {
    if (elsewhere_) source_->changed(*this);
  }
  Shape kept_shape() const { return whole() ? shape_ : Shape{range_.count()}; }
  Dtype dtype() const { return dtype_; }                     // T
  const Tensor& resident_master() const { return master_; }  // undefined where it has no memory of its own
  void read_master(int64_t first, int64_t count, float* values) const;  // elements of it, wherever it is kept
  bool defined() const { return kept_.defined() || elsewhere_; }

 private:
  Tensor floats() const;                   // the master, or workspace in its place
  void take_floats(const Tensor& master);  // they were changed: what is made of them follows

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
  bool elsewhere_ = false;  // source_ has what is kept
  Dtype dtype_ = Dtype::f32;
  Tensor value_, kept_, master_;
};

inline const Tensor& Weight::value() const {
  check(param_.defined(), "weight: '{}' is declared but has no memory yet", param_.name());
  return param_.value();
}

}  // namespace athanor
