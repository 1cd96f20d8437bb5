#include "train/sampled_layouts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "athanor/base/error.h"
#include "athanor/base/philox.h"
#include "athanor/config/validate.h"
#include "athanor/layout/enumerate.h"
#include "train/layout_run.h"

namespace athanor::tests {
namespace {

constexpr int kMostRanks = 4;
constexpr uint64_t kCandidates = 6000, kSeed = 1;

struct Value {
  const char* name;
  std::function<void(Config& config)> set;
};

void nothing(Config&) {}

void share_experts(ModelConfig& model) {
  model.num_experts = 12;
  model.moe_intermediate_size = 12;
}

// What is not an axis of enumerate(). The first value of each is what a config has without it.
std::vector<std::vector<Value>> features(const std::string& family) {
  const auto compression = [](const char* name, const char* method) {
    return Value{name, [method](Config& config) { config.compression.method = method; }};
  };
  const auto forgetful = [](const char* name, const char* method) {
    return Value{name, [method](Config& config) {
                   config.compression.method = method;
                   config.compression.error_feedback = false;
                 }};
  };
  std::vector<std::vector<Value>> all = {
      {{"adamw", nothing},
       {"adamw 8bit", [](Config& config) { config.optimizer.state = "8bit"; }},
       {"sgd",
        [](Config& config) {
          config.optimizer.name = "sgd";
          config.optimizer.lr = 1e-1;
        }}},
      {{"reduce fast", nothing}, {"reduce tree", [](Config& config) { config.parallel.reduce = "tree"; }}},
      {{"f32", nothing},
       {"bf16", [](Config& config) { config.precision.compute = "bf16"; }},
       {"f16", [](Config& config) { config.precision.compute = "f16"; }},
       {"f16 overflows",  // in the first steps
        [](Config& config) {
          config.precision.compute = "f16";
          config.precision.loss_scale = 1e7;
        }}},
      {{"no compression", nothing},
       compression("sums in bf16", "bf16"),
       compression("sums in int8", "int8"),
       compression("sums in topk", "topk"),
       compression("sums in powersgd", "powersgd"),
       compression("sums in onebit-adam", "onebit-adam"),
       forgetful("sums in bf16 without feedback", "bf16"),
       forgetful("sums in int8 without feedback", "int8"),
       forgetful("sums in topk without feedback", "topk")},
      {{"one shard group", nothing},
       {"shard groups of 2", [](Config& config) { config.parallel.shard_degree = 2; }}},
      {{"no local SGD", nothing},
       {"local SGD",
        [](Config& config) {
          config.local_sgd.sync_interval = 2;
          config.local_sgd.group_size = config.parallel.dp / 2;
        }}},
      {{"no servers", nothing}, {"server", [](Config& config) { config.parameter_server.servers = 1; }}},
      {{"in memory", nothing},
       {"on disk",
        [](Config& config) {
          OffloadConfig& o = config.offload;
          o.optimizer = o.activations = "disk";
          if (config.compression.method == "none" && config.parallel.shard_degree == 0) o.gradients = "disk";
          if (config.parallel.zero_stage == 3) o.parameters = "disk";
        }}},
      {{"one document", nothing}, {"documents", [](Config& config) { config.data.document_mask = true; }}},
      {{"clipped", nothing}, {"not clipped", [](Config& config) { config.optimizer.max_grad_norm = 0.0; }}},
      {{"many buckets", nothing},
       {"one bucket", [](Config& config) { config.parallel.bucket_bytes = 16 << 20; }}},
  };
  if (family == "moe")
    all.push_back({{"experts by loss", nothing}, {"experts by bias", [](Config& config) {
                                                    add_experts(config.model, "moe_bias");
                                                    share_experts(config.model);
                                                  }}});
  return all;
}

// Heads and experts that two, three and four ranks share, layers for two stages of every schedule, four uneven
// micro-batches.
Config config_of(const std::string& family) {
  Config config = uneven(family, "adamw");
  ModelConfig& model = config.model;
  model.num_hidden_layers = 4;
  model.num_attention_heads = 12;
  model.num_key_value_heads = family == "gpt2" ? 12 : 6;
  model.head_dim = 2;
  model.intermediate_size = 48;
  if (model.num_experts > 0) share_experts(model);
  config.train.global_batch_size = 7;
  config.train.steps = 4;
  config.train.eval_every = 0;
  config.compression.ratio = 0.2;
  config.compression.rank = 2;
  config.compression.warmup_steps = 1;
  return config;
}

bool is_legal(const Config& config) {
  try {
    validate(config);
    make_layout(config, {.world_size = ranks_of(config)});
  } catch (const ConfigError&) {
    return false;
  }
  return true;
}

}  // namespace

SampledLayouts sampled_layouts(const std::string& family,
                               const std::function<std::string(const Config&)>& why_excluded) {
  const Config config = config_of(family);
  std::vector<Layout> layouts = enumerate(config, kMostRanks).legal;
  std::erase_if(layouts, [](const Layout& layout) { return layout.world_size() == 1; });
  check(!layouts.empty(), "no layout of {} is legal", family);
  const std::vector<std::vector<Value>> all_features = features(family);
  const RandomStream stream(kSeed, "candidates");
  SampledLayouts sample;
  std::vector<SampledLayout> candidates;
  std::vector<std::vector<std::string>> values;
  std::set<std::string> known;
  for (uint64_t i = 0; i < kCandidates; ++i) {
    const auto draw = [&](uint64_t number, size_t of) { return stream.word(number, i) % of; };
    const Layout& layout = layouts[draw(0, layouts.size())];
    SampledLayout row{.config = in_layout(config, layout), .text = {}};
    std::vector<std::string> names = axis_values(layout), unusual;
    for (size_t f = 0; f < all_features.size(); ++f) {
      // Half of them are as usual, or a feature that goes with few others would hardly be drawn.
      const size_t of = all_features[f].size(), drawn = draw(2 * f + 1, 2) == 0 ? 0 : draw(2 * f + 2, of);
      const Value& value = all_features[f][drawn];
      value.set(row.config);
      names.push_back(value.name);
      if (drawn > 0) unusual.push_back(value.name);
    }
    if (!is_legal(row.config) || ranks_of(row.config) > kMostRanks) continue;
    if (const std::string why = why_excluded(row.config); !why.empty()) {
      ++sample.excluded[why];
      continue;
    }
    row.text = fmt::format("{}: {}{}{}", family, layout.text(), unusual.empty() ? "" : ", ",
                           fmt::join(unusual, ", "));
    if (!known.insert(row.text).second) continue;
    candidates.push_back(std::move(row));
    values.push_back(std::move(names));
  }
  std::set<std::string> seen;
  for (const size_t i : spanning_rows(values, 1, kSeed)) {
    for (const std::string& value : values[i])
      if (seen.insert(value).second) candidates[i].is_first = true;
    sample.rows.push_back(std::move(candidates[i]));
  }
  return sample;
}

}  // namespace athanor::tests
