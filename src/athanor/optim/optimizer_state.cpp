#include "athanor/optim/optimizer_state.h"

#include <algorithm>
#include <cstring>

#include "athanor/kernels/table.h"

namespace athanor::optim {
namespace {

int64_t blocks_of(int64_t elements) {
  return (elements + kQuantizeBlock - 1) / kQuantizeBlock;
}

// Size of the scales of quantized state. They come first in a record, where they are aligned.
uint64_t scale_bytes(int64_t elements) {
  return static_cast<uint64_t>(blocks_of(elements)) * sizeof(float);
}

}  // namespace

OptimizerState::OptimizerState(std::vector<Param*> params, std::vector<StateKind> kinds,
                               OptimizerStateOptions options)
    : params_(std::move(params)),
      kinds_(std::move(kinds)),
      records_(std::move(options.records)),
      home_(options.home) {
  if (records_ == nullptr) {
    auto memory = std::make_unique<MemoryRecords>();
    memory_ = memory.get();
    records_ = std::move(memory);
  }
  for (size_t i = 0; i < params_.size(); ++i) {
    index_of_[params_[i]] = i;
    coded_.push_back(options.eight_bits && options.eight_bits(*params_[i]));
  }
}

bool OptimizerState::is_coded(size_t param, size_t state) const {
  return coded_[param] && state < kinds_.size();
}

bool OptimizerState::keeps_master(size_t param) const {
  return memory_ == nullptr && params_[param]->dtype() != Dtype::f32;
}

void OptimizerState::allocate(Arena& arena) {
  for (size_t i = 0; i < params_.size(); ++i) {
    if (keeps_master(i)) params_[i]->keep_master(this);
    first_piece_.push_back(pieces_.size());
    add_pieces(i);
  }
  first_piece_.push_back(pieces_.size());
  records_->allocate(arena, Category::optimizer);
}

void OptimizerState::add_pieces(size_t index) {
  const Param& param = *params_[index];
  const int64_t numel = param.range().count(),
                most = memory_ != nullptr && !coded_[index] ? numel : kPieceElements;
  for (int64_t first = 0; first < numel; first += most) {
    Piece piece{.param = index, .first = first, .count = std::min(most, numel - first), .records = {}};
    const auto add = [&](const std::string& name) {
      const auto count = static_cast<uint64_t>(piece.count);
      const int64_t at = param.range().first + first;
      piece.records.push_back(records_->add(
          fmt::format("{} of '{}' [{}, {})", name, param.name(), at, at + piece.count),
          is_coded(index, piece.records.size()) ? count + scale_bytes(piece.count) : count * sizeof(float)));
    };
    for (const StateKind& kind : kinds_) add(kind.name);
    if (keeps_master(index)) add("the master");
    take_places(piece);
    pieces_.push_back(std::move(piece));
  }
}

void OptimizerState::take_places(Piece& piece) {
  if (!params_[piece.param]->is_out_of_place()) return;
  check(home_ != nullptr && memory_ != nullptr && !coded_[piece.param],
        "optimizer: the master of '{}' is updated out of place, expected the same of its state",
        params_[piece.param]->name());
  for (size_t state = 0; state < kinds_.size(); ++state) {
    const int place = home_->find(kinds_[state].name + "." + params_[piece.param]->name());
    check(place >= 0, "optimizer: {} of '{}' has no place, expected one as its master has",
          kinds_[state].name, params_[piece.param]->name());
    memory_->move(piece.records[state], home_->values(place));
    piece.places.push_back(place);
  }
}

// The values lie at their destinations from now on.
void OptimizerState::move(const Piece& piece) {
  if (piece.places.empty()) return;
  Param& param = *params_[piece.param];
  param.move_master(param.next_master().tensor);
  for (size_t state = 0; state < piece.places.size(); ++state)
    memory_->move(piece.records[state], home_->next(piece.places[state]).tensor);
}

void OptimizerState::carry_over() {
  for (const Piece& piece : pieces_) {
    if (piece.places.empty()) continue;
    params_[piece.param]->carry_over_master();
    for (size_t state = 0; state < piece.places.size(); ++state)
      home_->carry_over(piece.places[state], resident(piece.param, state));
    move(piece);
  }
}

OptimizerState::View OptimizerState::open(const Tensor& bytes, const Piece& piece, size_t state,
                                          Access access) const {
  if (!is_coded(piece.param, state))
    return {.values = view_as(bytes, 0, {piece.count}, Dtype::f32), .codes = {}, .scales = {}};
  View view{.values = empty(bytes.arena(), {piece.count}, Dtype::f32, Category::workspace),
            .codes = view_as(bytes, scale_bytes(piece.count), {piece.count}, Dtype::u8),
            .scales = view_as(bytes, 0, {blocks_of(piece.count)}, Dtype::f32)};
  if (access != Access::write)
    kernels_of(view.values)
        .quantize.decode(view.values.queue(), view.values, view.codes, view.scales, kinds_[state].codes);
  return view;
}

void OptimizerState::keep(const View& view, size_t state) const {
  if (!view.codes.defined()) return;
  Tensor codes = view.codes, scales = view.scales;
  kernels_of(codes).quantize.encode(codes.queue(), codes, scales, view.values, kinds_[state].codes);
}

void OptimizerState::update(const std::function<void(std::span<const OptimizerPiece>)>& visit, bool at_once) {
  stream_pieces(Access::update, visit, at_once);
}

void OptimizerState::read_pieces(const std::function<void(std::span<const OptimizerPiece>)>& visit,
                                 bool at_once) {
  stream_pieces(Access::read, visit, at_once);
}

void OptimizerState::stream_pieces(Access access,
                                   const std::function<void(std::span<const OptimizerPiece>)>& visit,
                                   bool at_once) {
  std::vector<OptimizerPiece> together;
  std::vector<const Piece*> of_together;
  std::vector<Records::Item> items;
  for (const Piece& piece : pieces_) items.push_back(piece.records);
  records_->stream(items, access, [&](size_t item, std::span<Tensor> bytes) {
    const Piece& piece = pieces_[item];
    std::vector<View> views;
    for (size_t state = 0; state < bytes.size(); ++state)
      views.push_back(open(bytes[state], piece, state, access));
    Param& param = *params_[piece.param];
    OptimizerPiece part{.param = param, .first = piece.first, .master = views.back().values, .states = {}};
    if (!keeps_master(piece.param)) part.master = param.master().flat(piece.first, piece.count);
    for (size_t state = 0; state < kinds_.size(); ++state) part.states.push_back(views[state].values);
    if (!piece.places.empty()) part.to_master = param.next_master();
    for (const int place : piece.places) part.to_states.push_back(home_->next(place));
    if (at_once && memory_ != nullptr && !coded_[piece.param] && !param.is_kept_elsewhere()) {
      together.push_back(std::move(part));
      of_together.push_back(&piece);
      return;
    }
    visit({&part, 1});
    if (access == Access::read) return;
    for (size_t state = 0; state < views.size(); ++state) keep(views[state], state);
    move(piece);
  });
  if (!together.empty()) visit(together);
  if (access == Access::read) return;
  for (const Piece* piece : of_together) move(*piece);
}

Tensor OptimizerState::resident(size_t param, size_t state) const {
  const size_t first = first_piece_[param];
  if (memory_ == nullptr || coded_[param] || first_piece_[param + 1] != first + 1) return {};
  const Tensor bytes = records_->resident(pieces_[first].records[state]);
  return view_as(bytes, 0, params_[param]->kept_shape(), Dtype::f32);
}

void OptimizerState::stream_state(size_t param, size_t state, int64_t first, int64_t last, Access access,
                                  const std::function<void(const Piece&, Tensor&)>& visit) const {
  std::vector<Records::Item> items;
  std::vector<const Piece*> of_item;
  for (size_t p = first_piece_[param]; p < first_piece_[param + 1]; ++p) {
    const Piece& piece = pieces_[p];
    if (piece.first >= last || piece.first + piece.count <= first) continue;
    items.push_back({piece.records.at(state)});
    of_item.push_back(&piece);
  }
  records_->stream(items, access, [&](size_t item, std::span<Tensor> bytes) {
    View view = open(bytes[0], *of_item[item], state, access);
    visit(*of_item[item], view.values);
    if (access != Access::read) keep(view, state);
  });
}

void OptimizerState::read(size_t param, size_t state, int64_t first, int64_t count, float* values) const {
  const int64_t last = first + count;
  stream_state(param, state, first, last, Access::read, [&](const Piece& piece, Tensor& elements) {
    const int64_t from = std::max(first, piece.first), to = std::min(last, piece.first + piece.count);
    const Tensor part = elements.flat(from - piece.first, to - from);
    copy_to_host(values + (from - first), part, part.size_bytes());
  });
}

void OptimizerState::write(size_t param, size_t state, const float* values, int64_t count) {
  const int64_t numel = params_[param]->range().count();
  check(count <= numel, "optimizer: got {} values of {} for '{}', expected at most {}", count, state,
        params_[param]->name(), numel);
  stream_state(param, state, 0, numel, Access::write, [&](const Piece& piece, Tensor& elements) {
    const int64_t there = std::clamp<int64_t>(count - piece.first, 0, piece.count);
    if (there < piece.count) fill_zero(elements);
    if (there == 0) return;
    Tensor part = elements.flat(0, there);
    copy_from_host(part, values + piece.first, part.size_bytes());
  });
}

void OptimizerState::write_master(const ParamStorage& param, const float* values) {
  write(index_of_.at(&param), master_state(), values, param.range().count());
}

void OptimizerState::read_master(const ParamStorage& param, int64_t first, int64_t count,
                                 float* values) const {
  read(index_of_.at(&param), master_state(), first, count, values);
}

}  // namespace athanor::optim
