// Where a parameter's values lie: those of one rank's part, or of its ZeRO shard. The Param owns it.
//
//   const ParamSpec spec("head.weight", {V, C}, Init::normal(0.02));
//   ParamStorage storage(spec);                                  // no memory yet
//   storage.allocate(arena, Dtype::bf16, /*with_master=*/true);   // then initialize(), value()
//
// Initial values are drawn by (seed, name, global element index), so every layout starts from the same weights (law 2).
// Memory is the arena's; the spec outlives the storage. Errors: Error. Thread rule: one thread; any may read values.
#pragma once

#include <cstdint>
#include <utility>

#include "athanor/autograd/param_spec.h"
#include "athanor/autograd/sources.h"
#include "athanor/autograd/state_home.h"
#include "athanor/tensor/tensor.h"

namespace athanor::autograd {

class ParamStorage {
 public:
  explicit ParamStorage(const ParamSpec& spec) : spec_(spec) {}
  ParamStorage(const ParamStorage&) = delete;
  ParamStorage& operator=(const ParamStorage&) = delete;
  const ParamSpec& spec() const { return spec_; }

  // Allocates the value and, if T is not f32 and `with_master`, the f32 master. Values are unset. With a ZeRO shard
  // (keep()) only the shard's master is still missing. Where `home` has a place for "model.NAME" the master lies there.
  // Then a shard in f32 has a master of its own, too.
  void allocate(Arena& arena, Dtype dtype, bool with_master, StateHome* home = nullptr);
  void initialize(uint64_t seed);        // draws the values
  void store_whole(const float* whole);  // sets master and value from host memory: all of the logical tensor
  void store_kept(const float* values);  // the same from the elements kept_elements()
  void load(float* values) const;        // the master, or else the value; Error with a ZeRO shard

  // ZeRO, before allocate(): this rank's shard is `range` of the flattened parameter; its values are `kept` (T, flat).
  // `source` sets the full value (unshard) and drops it.
  void keep(FlatRange range, Tensor kept, ValueSource* source);
  // The same with an offloaded shard: `source` holds it, and it has no memory of its own.
  void keep_elsewhere(FlatRange range, Dtype dtype, ValueSource* source) {
    range_ = range;
    dtype_ = dtype;
    source_ = source;
  }
  // Offload, after allocate() without a master: where T is not f32, `store` holds the master from now on.
  void keep_master(MasterStore* store);
  void set_value(Tensor whole) { value_ = std::move(whole); }
  bool whole() const { return source_ == nullptr; }  // not sharded by ZeRO
  FlatRange range() const { return whole() ? FlatRange{0, spec_.numel()} : range_; }
  FlatRange kept_elements() const { return spec_.unpadded(range()); }  // as elements of the spec's box()

  const Tensor& value() const {  // the full value, T; unsharded first if necessary
    if (source_ != nullptr) source_->need(*this);
    return value_;
  }
  // This rank's shard as the optimizer sees it, of kept_shape(). kept(): the values, T. master(): f32; kept() itself
  // where T is f32, undefined where a MasterStore holds it. After overwriting an offloaded shard call note_change().
  Tensor kept() const { return is_kept_elsewhere() ? source_->kept(*this) : kept_; }
  Tensor master() const {
    return is_kept_elsewhere() && dtype_ == Dtype::f32 ? source_->kept(*this) : master_;
  }
  // kept() where it is a copy of the master, rounded to T; undefined where it is the master itself.
  Tensor copy_of_master() const { return dtype_ == Dtype::f32 && !master_apart_ ? Tensor() : kept(); }
  void copy_master() const;  // after a change of master(): brings copy_of_master() up to date
  bool is_out_of_place() const { return home_ != nullptr; }
  // Then: where an update writes the master, and, after the update, that it lies there.
  Destination next_master() const { return home_->next(place_); }
  void move_master(const Tensor& next);
  void carry_over_master() const { home_->carry_over(place_, master_); }
  bool is_kept_elsewhere() const { return source_ != nullptr && !kept_.defined(); }  // the shard is offloaded
  void note_change() const {
    if (is_kept_elsewhere()) source_->changed(*this);
  }
  Shape kept_shape() const { return whole() ? spec_.shape() : Shape{range_.count()}; }
  Dtype dtype() const { return dtype_; }                                // T
  const Tensor& resident_master() const { return master_; }             // undefined where it is offloaded
  void read_master(int64_t first, int64_t count, float* values) const;  // of the shard, wherever it is
  bool defined() const { return kept_.defined() || source_ != nullptr; }

 private:
  void take_place(StateHome* home);
  Tensor floats() const;                   // the master, or workspace in its place
  void take_floats(const Tensor& master);  // after a change of floats(): updates value and offloaded master

  const ParamSpec& spec_;
  ValueSource* source_ = nullptr;
  MasterStore* masters_ = nullptr;
  FlatRange range_;
  Dtype dtype_ = Dtype::f32;
  Tensor value_, kept_, master_;
  StateHome* home_ = nullptr;  // null: the master stays where it is
  int place_ = -1;             // in home_
  bool master_apart_ = false;  // kept_ is a copy of master_, in f32 too
};

}  // namespace athanor::autograd
