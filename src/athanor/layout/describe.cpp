#include "athanor/layout/describe.h"

#include <fmt/format.h>

namespace athanor::layout {
namespace {

std::string shards_text(const Layout& layout) {
  return layout.shard_degree > 0 ? fmt::format(" in groups of {}", layout.shard_degree) : "";
}

// What most layouts have not.
std::string rarer_axes_text(const Config& config, const Layout& layout) {
  const LocalSgdConfig& local = config.local_sgd;
  const ParameterServerConfig& ps = config.parameter_server;
  std::string text;
  if (layout.cp > 1) text += fmt::format(", cp {} ({})", layout.cp, layout.cp_method);
  if (layout.ep > 1) text += fmt::format(", ep {}", layout.ep);
  if (config.compression.method != "none") text += ", compression " + config.compression.method;
  if (local.sync_interval > 0)
    text += fmt::format(", local SGD in groups of {} every {} steps{}", layout.replica_group_ranks(),
                        local.sync_interval, local.compression == "none" ? "" : " by " + local.compression);
  if (ps.servers > 0)
    text +=
        fmt::format(", {} parameter server{}, {}{}", ps.servers, ps.servers == 1 ? "" : "s", ps.consistency,
                    ps.consistency == "bounded" ? fmt::format(" by {}", ps.staleness) : "");
  return text;
}

// pp 2 (zb-v, 4 stages), dp 2
std::string axes_text(const Layout& layout) {
  const std::string dp = fmt::format("dp {}", layout.dp());
  if (layout.pp == 1) return dp;
  return fmt::format("pp {} ({}, {} stages), {}", layout.pp, layout.schedule, layout.stage_layers.size(), dp);
}

}  // namespace

std::string describe(const Config& config, const Layout& layout) {
  return fmt::format("{}, tp {}{}{}, ZeRO {}{}, reduce {}, recompute {}", axes_text(layout), layout.tp,
                     layout.sp ? " with sp" : "", rarer_axes_text(config, layout), layout.zero_stage,
                     shards_text(layout), layout.tree ? "tree" : "fast", layout.recompute);
}

std::string describe_batch(const Config& config, const Layout& layout) {
  const int64_t micro_batches = layout.micro_batches, dp = layout.dp();
  const TrainConfig& t = config.train;
  std::string accumulation = fmt::format("{}", micro_batches / dp);
  if (micro_batches % dp != 0) accumulation += fmt::format(" or {}", micro_batches / dp + 1);
  return fmt::format("{} x {} tokens = {} micro-batch x {} accumulation x {} dp", t.global_batch_size,
                     config.data.seq_len, t.micro_batch_size, accumulation, dp);
}

}  // namespace athanor::layout
