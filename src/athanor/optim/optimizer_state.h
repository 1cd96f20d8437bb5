// Storage of optimizer state: named values per element of each parameter's master, as f32 or quantized to 8 bits
// (kernels/quantize.h), in memory or offloaded (store/records.h). Offloaded state includes the master itself.
//
//   OptimizerState state(params, {{"adam.m"}, {"adam.v", CodeMap::root}}, {.records = ...});
//   state.allocate(arena);                                   // zeros
//   state.update([&](std::span<const OptimizerPiece> pieces) {   // each element of each parameter once
//     adamw(pieces[0].master, pieces[0].states[0], pieces[0].states[1], pieces[0].value(), ...);
//   });
//
// Updates go piece by piece. For f32 in memory a piece is a whole parameter; otherwise it has at most kPieceElements
// elements, which bounds the workspace. Quantization blocks start at multiples of their size in this rank's shard, so
// the bits do not depend on the pieces.
//
// Out of place: f32 in memory for which `home` has places ("adam.m.NAME") is read in one and written to the other. After
// visit() the values are those in the other. Errors: those of the Records. Thread rule: one thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "athanor/autograd/param.h"
#include "athanor/autograd/state_home.h"
#include "athanor/kernels/quantize.h"
#include "athanor/store/memory_records.h"

namespace athanor::optim {

struct OptimizerPiece {
  Param& param;
  int64_t first;               // the piece's first element in the shard, param.range()
  Tensor master;               // f32 [count]
  std::vector<Tensor> states;  // f32 [count], in the order of the StateKinds
  // Where the update writes them; Destination{}: where they are.
  Destination to_master = {};
  std::vector<Destination> to_states = {};
  int64_t count() const { return master.numel(); }
  Destination to_state(size_t state) const { return to_states.empty() ? Destination{} : to_states[state]; }
  Tensor value() const {  // T; undefined where the master is the value
    const Tensor copy = param.copy_of_master();
    return copy.defined() ? copy.flat(first, count()) : copy;
  }
};

// One kind of state: one value per element. `codes`: the map of its 8-bit quantization, if it is quantized.
struct StateKind {
  std::string name;
  CodeMap codes = CodeMap::plain;
};

struct OptimizerStateOptions {
  std::unique_ptr<Records> records = nullptr;  // null: in memory
  std::function<bool(const ParamSpec&)> eight_bits =
      nullptr;                // which parameters have 8-bit state; null: none
  StateHome* home = nullptr;  // null: all is updated in place
};

class OptimizerState final : public MasterStore {
 public:
  static constexpr int64_t kPieceElements = int64_t{1} << 18;

  OptimizerState(std::vector<Param*> params, std::vector<StateKind> kinds, OptimizerStateOptions options);
  void allocate(Arena& arena);  // after the parameters; takes over the masters that they did not allocate

  // Calls visit with every piece. `at_once`: all pieces that are in memory as f32 come in a single call.
  void update(const std::function<void(std::span<const OptimizerPiece>)>& visit, bool at_once = true);
  // Calls visit with every piece in the same way. Nothing is written: visit may only look at values.
  void read_pieces(const std::function<void(std::span<const OptimizerPiece>)>& visit, bool at_once = true);
  void carry_over();  // in a step without an update: what is out of place goes to its other place as it is

  const std::vector<Param*>& params() const { return params_; }
  const std::vector<StateKind>& kinds() const { return kinds_; }
  Tensor resident(size_t param, size_t state) const;  // undefined unless the state is in memory as f32
  void read(size_t param, size_t state, int64_t first, int64_t count, float* values) const;
  void write(size_t param, size_t state, const float* values, int64_t count);  // zeroes the rest

  void write_master(const ParamStorage& param, const float* values) override;
  void read_master(const ParamStorage& param, int64_t first, int64_t count, float* values) const override;

 private:
  // Elements [first, first + count) of a shard, and the records of their states and, last, of their master.
  struct Piece {
    size_t param;
    int64_t first, count;
    Records::Item records;
    std::vector<int> places = {};  // in home_, of each state; empty: it is updated in place
  };
  // A record as tensors. Quantized state is dequantized into workspace, and quantized again by keep().
  struct View {
    Tensor values;         // f32 [count]
    Tensor codes, scales;  // 8-bit state; undefined where the record is f32
  };
  size_t master_state() const { return kinds_.size(); }
  bool is_coded(size_t param, size_t state) const;
  bool keeps_master(size_t param) const;
  void stream_pieces(Access access, const std::function<void(std::span<const OptimizerPiece>)>& visit,
                     bool at_once);
  void add_pieces(size_t param);
  void take_places(Piece& piece);
  void move(const Piece& piece);
  View open(const Tensor& bytes, const Piece& piece, size_t state, Access access) const;
  void keep(const View& view, size_t state) const;
  // Calls visit(piece, f32 [count]) for the pieces of one state of a parameter with elements in [first, last).
  void stream_state(size_t param, size_t state, int64_t first, int64_t last, Access access,
                    const std::function<void(const Piece&, Tensor&)>& visit) const;

  std::vector<Param*> params_;
  std::vector<StateKind> kinds_;
  std::unique_ptr<Records> records_;
  MemoryRecords* memory_ = nullptr;  // records_, unless they are offloaded
  StateHome* home_;
  std::vector<bool> coded_;  // by parameter
  std::vector<Piece> pieces_;
  std::vector<size_t> first_piece_;  // of each parameter, then the number of pieces
  std::unordered_map<const ParamStorage*, size_t> index_of_;
};

}  // namespace athanor::optim
