#include "athanor/engine/replica_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/kernels/table.h"

namespace athanor::engine {

std::string replica_prefix(const OuterSync* outer) {
  return outer == nullptr ? "" : fmt::format("replica.{}.", outer->replica_group());
}

std::string replica_prefix(const TensorSource& source, const OuterSync* outer, const ParamSpec& any) {
  int written = 0;
  while (source.has(fmt::format("replica.{}.model.{}", written, any.name()))) ++written;
  if (written == 0) return "";
  if (outer == nullptr)
    throw ConfigError(
        fmt::format(
            "local_sgd.sync_interval: got 0 for '{}', expected k > 0: it holds the optimizer state of "
            "{} replica groups",
            source.text(), written),
        "train.init_from takes its weights alone");
  return fmt::format("replica.{}.", outer->replica_group() % written);
}

namespace {

std::string residual_kind(int replica_group) {
  return fmt::format("replica.{}.outer.error_feedback", replica_group);
}

}  // namespace

void add_outer(std::vector<StateTensor>& tensors, const OuterSync& outer,
               const std::vector<std::unique_ptr<Param>>& params) {
  for (const OuterPiece& piece : outer.pieces()) {
    if (piece.param->is_second_copy()) continue;
    tensors.push_back(kept_part("model", *piece.param, piece.range, {piece.weights}));
    tensors.push_back(kept_part("outer.momentum", *piece.param, piece.range, {piece.momentum}));
  }
  for (const OuterResidual& residual : outer.residuals())
    if (!residual.param->is_second_copy())
      tensors.push_back(
          kept_part(residual.of_sum ? "outer.server_error" : residual_kind(outer.replica_group()),
                    *residual.param, residual.range, {residual.values}));
  for (const auto& param : params)
    if (param->is_state()) tensors.push_back(kept_part("model", *param, param->range(), {param->master()}));
}

void load_outer(const TensorSource& source, OuterSync& outer) {
  const auto read = [&](const std::string& kind, const ParamSpec& param, const FlatRange& range,
                        const Tensor& to) {
    if (!source.has(kind + "." + param.name())) return false;
    const std::vector<float> values = read_slices(source, kind, param, range);
    std::copy(values.begin(), values.end(), to.data<float>());
    return true;
  };
  for (const OuterPiece& piece : outer.pieces()) {
    read("model", *piece.param, piece.range, piece.weights);
    read("outer.momentum", *piece.param, piece.range, piece.momentum);
  }
  for (const OuterResidual& residual : outer.residuals()) {
    Tensor values = residual.values;
    fill_zero(values);
    if (residual.of_sum) {
      read("outer.server_error", *residual.param, residual.range, values);
      continue;
    }
    const Tensor part = empty_like(values, Category::workspace);
    for (int h = outer.replica_group(); read(residual_kind(h), *residual.param, residual.range, part);
         h += outer.num_replica_groups())
      kernels_of(values).elementwise.accumulate(values.queue(), values, part);
  }
  outer.set_begun();
}

}  // namespace athanor::engine
