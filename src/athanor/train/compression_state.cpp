#include "athanor/train/compression_state.h"

#include <algorithm>

#include "athanor/train/param_slices.h"

namespace athanor {
namespace {

std::string tensor_name(const CompressionState& state, int rank = 0) {
  return state.prefix(rank) + "." + state.weight->param().name();
}

}  // namespace

CompressionOptions compression_of(const Config& config) {
  const ParallelConfig& p = config.parallel;
  Compression kind = Compression::none;
  if (p.compression == "bf16") kind = Compression::bf16;
  if (p.compression == "int8") kind = Compression::int8;
  if (p.compression == "topk") kind = Compression::topk;
  if (p.compression == "powersgd") kind = Compression::powersgd;
  if (p.compression == "onebit-adam") kind = Compression::onebit_adam;
  return {.kind = kind,
          .ratio = p.compression_ratio,
          .rank = p.compression_rank,
          .warmup_updates = p.compression_warmup,
          .error_feedback = p.error_feedback,
          .seed = config.train.seed};
}

void add_compression(std::vector<NamedTensor>& tensors, const std::vector<CompressionState>& states) {
  for (const CompressionState& state : states) {
    if (state.kind == SumState::Kind::factor) {
      tensors.push_back({.name = tensor_name(state), .tensor = state.values});
    } else {
      add_slices(tensors, state.prefix(state.rank), state.weight->param(), state.range, state.values);
    }
  }
}

void load_compression(const Checkpoint& checkpoint, const std::vector<CompressionState>& states) {
  for (const CompressionState& state : states) {
    Tensor values = state.values;
    fill_zero(values);
    if (state.kind == SumState::Kind::factor) {
      const std::string name = tensor_name(state);
      if (checkpoint.has(name) && checkpoint.at(name).shape == values.shape())
        checkpoint.read(name, values.shape(), values.data<float>());
      continue;
    }
    // The sum over the ranks has but one residue.
    const bool of_rank = state.kind == SumState::Kind::residue;
    std::vector<float> sum;
    for (int rank = of_rank ? state.rank : 0; checkpoint.has(tensor_name(state, rank)); rank += state.ranks) {
      std::vector<float> found =
          read_slices(checkpoint, state.prefix(rank), state.weight->param(), state.range);
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

}  // namespace athanor
