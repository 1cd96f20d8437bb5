#include "athanor/engine/compression_state.h"

#include <algorithm>

namespace athanor::engine {
namespace {

std::string tensor_name(const std::string& own, const ExchangeState& state, int rank = 0) {
  return own + state.prefix(rank) + "." + state.weight->param().name();
}

// A PowerSGD factor as a part of its logical tensor, which has one factor per matrix: per expert of a stack, or per
// tensor-parallel part of a matrix.
StateTensor factor_of(const std::string& own, const ExchangeState& state) {
  const ParamSpec& param = state.weight->param();
  const int64_t rank = state.values.dim(0), cols = state.values.dim(1);
  const auto [part, parts] = matrix_part(param);
  const auto factor = [&](Shape whole, Box box) {
    return StateTensor{.name = tensor_name(own, state),
                       .whole = std::move(whole),
                       .boxes = {std::move(box)},
                       .kept = {state.values}};
  };
  if (!param.is_stack() && parts == 1) return factor({rank, cols}, whole_box({rank, cols}));
  const int64_t number =
      param.is_stack() ? param.box().offset[0] + state.range.first / state.range.count() : int64_t{part};
  return factor({param.is_stack() ? param.whole_shape()[0] : int64_t{parts}, rank, cols},
                {{number, 0, 0}, {1, rank, cols}});
}

}  // namespace

CompressionOptions compression_of(const Config& config) {
  const CompressionConfig& c = config.compression;
  Compression kind = Compression::none;
  if (c.method == "bf16") kind = Compression::bf16;
  if (c.method == "int8") kind = Compression::int8;
  if (c.method == "topk") kind = Compression::topk;
  if (c.method == "powersgd") kind = Compression::powersgd;
  if (c.method == "onebit-adam") kind = Compression::onebit_adam;
  return {.kind = kind,
          .ratio = c.ratio,
          .rank = c.rank,
          .warmup_updates = c.warmup_steps,
          .error_feedback = c.error_feedback,
          .seed = config.train.seed};
}

void add_compression(std::vector<StateTensor>& tensors, const std::vector<ExchangeState>& states,
                     const std::string& own) {
  for (const ExchangeState& state : states) {
    tensors.push_back(
        state.kind == StateKind::factor
            ? factor_of(own, state)
            : kept_part(own + state.prefix(state.rank), state.weight->param(), state.range, {state.values}));
    tensors.back().changes_in_passes = true;
  }
}

void load_compression(const TensorSource& source, const std::vector<ExchangeState>& states,
                      const std::string& own) {
  for (const ExchangeState& state : states) {
    Tensor values = state.values;
    fill_zero(values);
    if (state.kind == StateKind::factor) {
      const StateTensor factor = factor_of(own, state);
      if (source.has(factor.name) && source.shape_of(factor.name) == factor.whole)
        source.read_box(factor.name, factor.whole, factor.boxes[0], values.data<float>());
      continue;
    }
    // A residual of the sum belongs to no rank: there is one of it.
    const bool of_rank = state.kind == StateKind::residual;
    std::vector<float> sum;
    for (int rank = of_rank ? state.rank : 0; source.has(tensor_name(own, state, rank));
         rank += state.ranks) {
      std::vector<float> found =
          read_slices(source, own + state.prefix(rank), state.weight->param(), state.range);
      if (sum.empty()) {
        sum = std::move(found);
      } else {
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += found[i];
      }
      if (!of_rank) break;
    }
    std::copy(sum.begin(), sum.end(), values.data<float>());
  }
}

}  // namespace athanor::engine
