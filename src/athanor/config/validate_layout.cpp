#include <algorithm>

#include "athanor/config/refuse.h"
#include "athanor/config/validate_parts.h"

namespace athanor::config {
namespace {

bool fits_tensor_parallel(const ModelConfig& m, int64_t tp) {
  return m.num_attention_heads % tp == 0 && m.intermediate_size % tp == 0 &&
         (m.num_key_value_heads % tp == 0 || tp % m.num_key_value_heads == 0);
}

// Of two that are equally near the smaller one; 1 always fits.
int64_t nearest_tensor_parallel(const ModelConfig& m, int64_t tp) {
  for (int64_t distance = 0;; ++distance) {
    if (tp - distance >= 1 && fits_tensor_parallel(m, tp - distance)) return tp - distance;
    if (tp + distance <= m.num_attention_heads && fits_tensor_parallel(m, tp + distance))
      return tp + distance;
  }
}

// Heads are whole, feed-forward layers cut evenly; a vocabulary may be cut unevenly.
void check_tensor_parallel(const Config& config) {
  const ModelConfig& m = config.model;
  const int64_t tp = config.parallel.tp;
  if (!fits_tensor_parallel(m, tp)) {
    const auto [key, value] =
        m.num_attention_heads % tp != 0 ? std::pair("num_attention_heads", m.num_attention_heads)
        : m.intermediate_size % tp != 0 ? std::pair("intermediate_size", m.intermediate_size)
                                        : std::pair("num_key_value_heads", m.num_key_value_heads);
    refuse(config, "parallel.tp",
           fmt::format("the nearest that this model can be split into is {}", nearest_tensor_parallel(m, tp)),
           "got {}, which does not divide model.{} = {}", tp, key, value);
  }
  if (config.parallel.sp && tp == 1)
    refuse(config, "parallel.sp", "sequence parallelism partitions the tokens over the ranks of parallel.tp",
           "got true with parallel.tp = 1, expected false");
}

bool fits_heads(const ModelConfig& m, int64_t tp, int64_t cp) {
  const int64_t heads = m.num_attention_heads / tp,
                kv_heads = std::max<int64_t>(1, m.num_key_value_heads / tp);
  return heads % cp == 0 && (kv_heads % cp == 0 || cp % kv_heads == 0);
}

// A sequence is cut into as many chunks as keep every rank busy; heads are whole.
void check_context_parallel(const Config& config) {
  const ModelConfig& m = config.model;
  const ParallelConfig& p = config.parallel;
  if (p.cp == 1) return;
  const bool ring = p.cp_method == "ring";
  const int64_t most = ring ? config.data.seq_len / 2 : config.data.seq_len;
  require(p.cp <= most, config, "parallel.cp", "got {}, expected at most {} for data.seq_len = {}: {}", p.cp,
          most, config.data.seq_len,
          ring ? "each rank of a ring has two chunks of a sequence" : "each rank has at least one token");
  if (!ring && !fits_heads(m, p.tp, p.cp)) {
    int64_t nearest = p.cp;
    while (!fits_heads(m, p.tp, nearest)) --nearest;
    refuse(
        config, "parallel.cp",
        fmt::format("the nearest that these heads can be split into is {}; parallel.cp_method = \"ring\" "
                    "works with any number of heads",
                    nearest),
        "got {} with parallel.cp_method = \"ulysses\", which does not divide model.num_attention_heads = {} "
        "and "
        "model.num_key_value_heads = {}{}",
        p.cp, m.num_attention_heads, m.num_key_value_heads,
        p.tp > 1 ? fmt::format(" by parallel.tp = {}", p.tp) : "");
  }
}

// The blocks of each pipeline stage, where they are given: one entry per stage, only the ends without a block.
void check_stage_layers(const Config& config) {
  const ParallelConfig& p = config.parallel;
  if (p.stage_layers.empty()) return;
  const auto got = static_cast<int64_t>(p.stage_layers.size());
  if (p.virtual_stages > 0)
    require(got == p.pp * p.virtual_stages, config, "parallel.stage_layers",
            "got {} stages, expected {}: parallel.pp = {} ranks with parallel.virtual_stages = {} each", got,
            p.pp * p.virtual_stages, p.pp, p.virtual_stages);
  int64_t layers = 0;
  for (size_t stage = 0; stage < p.stage_layers.size(); ++stage) {
    layers += p.stage_layers[stage];
    require(p.stage_layers[stage] > 0 || stage == 0 || stage + 1 == p.stage_layers.size(), config,
            "parallel.stage_layers",
            "got no layer in stage {}, expected at least one: only the first and the last "
            "stage have something else to do",
            stage);
  }
  require(layers == config.model.num_hidden_layers, config, "parallel.stage_layers",
          "got {} layers in all, expected model.num_hidden_layers = {}", layers,
          config.model.num_hidden_layers);
}

}  // namespace

// What can be said of a layout without its ranks; layout/layout.h says the rest.
void check_layout(const Config& config) {
  check_tensor_parallel(config);
  check_context_parallel(config);
  check_stage_layers(config);
  const ParallelConfig& p = config.parallel;
  const int64_t experts = config.model.num_experts;
  if (p.ep > 1 && experts == 0)
    refuse(config, "parallel.ep", "model.model_type = \"mixtral\" and \"moe\" have experts",
           "got {} for a model without experts, expected 1", p.ep);
  if (p.ep > 1 && experts % p.ep != 0) {
    int64_t nearest = std::min(p.ep, experts);
    while (experts % nearest != 0) --nearest;
    refuse(config, "parallel.ep", fmt::format("the nearest that divides is {}", nearest),
           "got {}, which does not divide model.num_experts = {}", p.ep, experts);
  }
  if (!p.schedule.ends_with(".csv"))
    check_choice(config, "parallel.schedule", p.schedule,
                 {"gpipe", "1f1b", "interleaved", "bfs", "zb-h1", "zb-v", "dualpipe-v"});
  const LaunchConfig& l = config.launch;
  require(l.max_ranks == 0 || l.max_ranks >= l.min_ranks, config, "launch.max_ranks",
          "got {}, expected at least launch.min_ranks = {}", l.max_ranks, l.min_ranks);
  require(l.tune == "off" || config.parameter_server.servers == 0, config, "launch.tune",
          "got '{}' with parameter_server.servers = {}, expected off: with servers no setting changes while "
          "the run trains",
          l.tune, config.parameter_server.servers);
}

}  // namespace athanor::config
