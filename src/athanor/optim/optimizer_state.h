// What an optimizer keeps for each parameter: named values of its master's elements, wherever they are (store/
// records.h), as f32 or as 8-bit codes (kernels/quantize.h), and the master itself where that is not in memory either.
//
//   OptimizerState state(params, {{"adam.m"}, {"adam.v", CodeMap::root}}, {.records = ...});
//   state.allocate(arena);                                   // zeros
//   state.update([&](std::span<const OptimizerPiece> pieces) {   // each element of each parameter once
//     adamw(pieces[0].master, pieces[0].states[0], pieces[0].states[1], pieces[0].value(), ...);
//   });
//
// In memory as f32 a piece is all of a parameter; else it is kPieceElements of it, so that what stands beside the
// records is bounded. An update is element by element, and blocks of codes begin at multiples of their size in what the
// rank holds of the parameter, so the bits depend neither on the pieces nor on ZeRO. Thread rule: one thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "athanor/autograd/param.h"
#include "athanor/kernels/quantize.h"
#include "athanor/store/records.h"

namespace athanor {

struct OptimizerPiece {
  Param& param;
  int64_t first;               // of its kept elements
  Tensor master;               // f32 [count]
  std::vector<Tensor> states;  // f32 [count], by name
  int64_t count() const { return master.numel(); }
  Tensor value() const {  // T, undefined where the master is the value
    const Tensor copy = param.copy_of_master();
    return copy.defined() ? copy.flat(first, count()) : copy;
  }
};

// One value per element, and how it is coded where it is coded.
struct StateKind {
  std::string name;
  CodeMap codes = CodeMap::plain;
};

struct OptimizerStateOptions {
  std::unique_ptr<Records> records = nullptr;              // null: in memory
  std::function<bool(const Param&)> eight_bits = nullptr;  // whose state is kept as codes; null: nobody's
};

class OptimizerState final : public MasterStore {
 public:
  static constexpr int64_t kPieceElements = int64_t{1} << 18;

  OptimizerState(std::vector<Param*> params, std::vector<StateKind> kinds, OptimizerStateOptions options);
  void allocate(Arena& arena);  // the parameters have memory; masters that they lack are kept here

  // With at_once all that is in memory as it is comes in one call.
  void update(const std::function<void(std::span<const OptimizerPiece>)>& visit, bool at_once = true);

  const std::vector<Param*>& params() const { return params_; }
  const std::vector<StateKind>& kinds() const { return kinds_; }
  Tensor resident(size_t param, size_t state) const;  // undefined where it is not in memory as f32
  void read(size_t param, size_t state, int64_t first, int64_t count, float* values) const;
  void write(size_t param, size_t state, const float* values, int64_t count);  // what is left is zero

  void write_master(const Param& param, const float* values) override;
  void read_master(const Param& param, int64_t first, int64_t count, float* values) const override;

 private:
  // Some elements of a parameter, and the records of their states and, last, their master.
  struct Piece {
    size_t param;
    int64_t first, count;
    Records::Item records;
  };
  // A record as tensors. What is coded is decoded into workspace, and coded again by keep().
  struct View {
    Tensor values;         // f32 [count]
    Tensor codes, scales;  // undefined where the record holds the values themselves
  };
  size_t master_state() const { return kinds_.size(); }
  bool is_coded(size_t param, size_t state) const;
  bool keeps_master(size_t param) const;
  void add_pieces(size_t param);
  View open(const Tensor& bytes, const Piece& piece, size_t state, Access access) const;
  void keep(const View& view, size_t state) const;
  // visit(piece, f32 [count]) for the pieces of one state of a parameter that have elements in [first, last).
  void stream_state(size_t param, size_t state, int64_t first, int64_t last, Access access,
                    const std::function<void(const Piece&, Tensor&)>& visit) const;

  std::vector<Param*> params_;
  std::vector<StateKind> kinds_;
  std::unique_ptr<Records> records_;
  bool in_memory_;
  std::vector<bool> coded_;  // by parameter
  std::vector<Piece> pieces_;
  std::vector<size_t> first_piece_;  // of each parameter, and the end
  std::unordered_map<const Param*, size_t> index_of_;
};

}  // namespace athanor
