#include "athanor/train/header.h"

#include <fmt/format.h>

#include "athanor/base/human.h"
#include "athanor/train/offload.h"

namespace athanor {
namespace {

std::string bytes(uint64_t size_bytes) {
  return human_bytes(static_cast<double>(size_bytes));
}
std::string count(int64_t value) {
  return human_count(static_cast<double>(value));
}

std::string shards_text(const ParallelConfig& p) {
  return p.zero_shard > 0 ? fmt::format(" in groups of {}", p.zero_shard) : "";
}

// What most layouts have not.
std::string rarer_axes_text(const ParallelConfig& p) {
  std::string text;
  if (p.cp > 1) text += fmt::format(", cp {} ({})", p.cp, p.cp_kind);
  if (p.ep > 1) text += fmt::format(", ep {}", p.ep);
  if (p.compression != "none") text += ", compression " + p.compression;
  if (p.sync_every > 0)
    text += fmt::format(", groups of {} meet every {} steps{}", p.sync_group, p.sync_every,
                        p.outer_compression == "none" ? "" : " by " + p.outer_compression);
  if (p.servers > 0)
    text += fmt::format(", {} parameter server{}, {}{}", p.servers, p.servers == 1 ? "" : "s", p.consistency,
                        p.consistency == "bounded" ? fmt::format(" by {}", p.staleness) : "");
  return text;
}

// pp 2 (zb-v, 4 stages), dp 2
std::string axes_text(const Config& config, const Training& training, int world_size) {
  const ParallelConfig& p = config.parallel;
  std::string dp = fmt::format("dp {}", mesh_shape(config, world_size).dp);
  if (!training.pipeline) return dp;
  return fmt::format("pp {} ({}, {} stages), {}", p.pp, p.schedule, training.pipeline->num_stages(), dp);
}

}  // namespace

Rows header_rows(const Config& config, const Training& training, std::span<const Channel> channels,
                 const MemoryPlan& plan, const Queue& queue, const Placement& placement, int world_size,
                 int64_t steps_done) {
  const ModelConfig& m = config.model;
  const MemoryUsage& use = plan.usage;
  const auto peak = [&](Category category) { return bytes(use.peak[static_cast<size_t>(category)]); };
  Rows rows;
  rows.emplace_back("model", fmt::format("{}, {} layers, width {}, {} heads ({} kv), ffn {}, vocab {}",
                                         m.preset.empty() ? m.family : m.preset, m.layers, m.width, m.heads,
                                         m.kv_heads, m.ffn_width, m.vocab_size));
  if (!training.model->moe_layers().empty())
    rows.emplace_back("experts",
                      fmt::format("{} of {} per token, {} shared, of width {}, in {} layers, {} scores",
                                  m.experts_per_token, m.experts, m.shared_experts, m.expert_width,
                                  training.model->moe_layers().size(), m.router));
  if (const auto origin = config.origins.find("model.layers");
      origin != config.origins.end() && origin->second.kind == Origin::Kind::source) {
    const auto tokenizer = config.origins.find("data.tokenizer");
    const bool both = tokenizer != config.origins.end() && tokenizer->second.kind == Origin::Kind::source;
    rows.emplace_back("", fmt::format("{} of {}", both ? "architecture and tokenizer" : "architecture",
                                      origin->second.text));
  }
  rows.emplace_back("parameters",
                    fmt::format("{} ({}), {} FLOPs per token", count(training.model->num_params()),
                                with_commas(training.model->num_params()),
                                human_count(training.model->flops_per_token(config.data.seq_len))));
  rows.emplace_back(
      "layout", fmt::format("{}, tp {}{}{}, zero {}{}, reduce {}, {} grains of {} x {} tokens, recompute {}",
                            axes_text(config, training, world_size), config.parallel.tp,
                            config.parallel.sp ? " with sp" : "", rarer_axes_text(config.parallel),
                            config.parallel.zero, shards_text(config.parallel), config.parallel.reduce,
                            training.num_grains, config.train.micro_batch, config.data.seq_len,
                            config.parallel.recompute));
  rows.emplace_back(
      "compute", fmt::format("{} on {}, {} thread{} a rank{}", config.precision.compute,
                             isa_name(queue.isa()), queue.num_threads(), queue.num_threads() == 1 ? "" : "s",
                             placement.text().empty() ? "" : ", " + placement.text()));
  rows.emplace_back("memory", fmt::format("{} a rank at the peak", bytes(use.peak_total)));
  rows.emplace_back("", fmt::format("parameters {}, gradients {}, optimizer {}", peak(Category::parameters),
                                    peak(Category::gradients), peak(Category::optimizer)));
  rows.emplace_back("",
                    fmt::format("activations {}, workspace {}, communication {}", peak(Category::activations),
                                peak(Category::workspace), peak(Category::communication)));
  std::string on_disk;
  const auto note = [&](const char* what, const std::string& place) {
    if (place == "disk") on_disk += (on_disk.empty() ? "" : ", ") + std::string(what);
  };
  note("optimizer", config.offload.optimizer);
  note("gradients", config.offload.gradients);
  note("parameters", config.offload.parameters);
  note("activations", config.offload.activations);
  if (!on_disk.empty()) rows.emplace_back("on disk", on_disk + ", in " + offload_folder(config));
  if (plan.host_bytes > 0)
    rows.emplace_back("offload",
                      fmt::format("{} a rank in pinned memory of the host", bytes(plan.host_bytes)));
  for (const Channel& channel : channels)
    rows.emplace_back("data " + channel.name(),
                      fmt::format("{} tokens, {} held out, weight {:g}", count(channel.num_tokens()),
                                  count(channel.num_valid_tokens()), channel.weight()));
  rows.emplace_back("steps", fmt::format("{} to {}, {} tokens each", steps_done + 1, config.train.steps,
                                         count(config.train.global_batch * config.data.seq_len)));
  return rows;
}

}  // namespace athanor
