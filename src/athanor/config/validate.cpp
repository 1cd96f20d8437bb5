#include "athanor/config/validate.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <set>
#include <tuple>

#include "athanor/base/error.h"
#include "athanor/base/human.h"
#include "athanor/base/nearest.h"
#include "athanor/config/fields.h"
#include "athanor/config/recompute.h"

namespace athanor {
namespace {

// Throws "ORIGIN: KEY: MESSAGE".
template <typename... Args>
[[noreturn]] void refuse(const Config& config, const std::string& key, const std::string& hint,
                         fmt::format_string<Args...> message, Args&&... args) {
  const auto origin = config.origins.find(key);
  const std::string where = origin == config.origins.end() ? "" : origin->second.text + ": ";
  throw ConfigError(
      fmt::format("{}{}: {}", where, key, fmt::vformat(message, fmt::make_format_args(args...))), hint);
}

template <typename... Args>
void require(bool condition, const Config& config, const std::string& key,
             fmt::format_string<Args...> message, Args&&... args) {
  if (!condition) refuse(config, key, "", message, std::forward<Args>(args)...);
}

void check_choice(const Config& config, const std::string& key, const std::string& value,
                  const std::vector<std::string>& choices) {
  if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end()) return;
  const std::string nearest = nearest_name(value, choices);
  refuse(config, key, "", "got '{}', expected one of {}{}", printable(value), fmt::join(choices, ", "),
         nearest.empty() ? "" : fmt::format(" (did you mean '{}'?)", nearest));
}

void check_number(const Config& config, const std::string& key, const Traits& traits, long double value) {
  const bool is_auto = traits.auto_is_zero && value == 0;
  if (is_auto || traits.range.contains(value)) return;
  refuse(config, key, "", "got {}, expected {}", static_cast<double>(value), traits.range.expected(value));
}

void check_experts(const Config& config) {
  const ModelConfig& m = config.model;
  if (m.family != "moe") {
    require(m.experts == 0, config, "model.experts",
            "got {}, expected none: a {} has no experts, family moe has", m.experts, m.family);
    return;
  }
  require(m.experts_per_token <= m.experts, config, "model.experts_per_token",
          "got {}, expected at most model.experts = {}", m.experts_per_token, m.experts);
  require(m.dense_layers < m.layers, config, "model.dense_layers",
          "got {}, expected fewer than model.layers = {}", m.dense_layers, m.layers);
  require(!m.bias, config, "model.bias", "got true, expected false: experts have no biases");
}

void check_model(const Config& config) {
  const ModelConfig& m = config.model;
  const bool known = m.layers > 0 && m.width > 0 && m.heads > 0 && m.kv_heads > 0 && m.head_dim > 0;
  if (!known) {
    refuse(config, "model.head_dim", "", "got width {} and {} heads, expected at least one channel per head",
           m.width, m.heads);
  }
  if (config.origins.contains("model.head_dim") &&
      config.origins.find("model.head_dim")->second.kind == Origin::Kind::derived)
    require(m.width % m.heads == 0, config, "model.width",
            "got {}, expected a multiple of model.heads = {} (or an explicit model.head_dim)", m.width,
            m.heads);
  require(m.heads % m.kv_heads == 0, config, "model.kv_heads",
          "got {}, expected a divisor of model.heads = {}: query heads share key heads evenly", m.kv_heads,
          m.heads);
  require(m.heads * m.head_dim <= int64_t{1} << 24, config, "model.head_dim",
          "got {} heads of {}, expected at most {} channels of attention", m.heads, m.head_dim,
          int64_t{1} << 24);
  if (m.family != "gpt2")
    require(m.head_dim % 2 == 0, config, "model.head_dim",
            "got {}, expected an even number: rotary embedding turns pairs of channels", m.head_dim);
  if (m.family == "gpt2")
    require(m.kv_heads == m.heads, config, "model.kv_heads",
            "got {}, expected model.heads = {}: gpt2 has no grouped-query attention", m.kv_heads, m.heads);
  check_experts(config);
  if (config.data.seq_len > m.max_seq_len)
    refuse(config, "data.seq_len", "shorten data.seq_len or raise model.max_seq_len",
           "got {}, expected at most model.max_seq_len = {}", config.data.seq_len, m.max_seq_len);
}

// A name stands in metrics.jsonl, TensorBoard tags (channel_loss/NAME), the console and overrides.
void check_channels(const Config& config) {
  std::set<std::string> seen;
  for (size_t i = 0; i < config.data.channels.size(); ++i) {
    const ChannelConfig& channel = config.data.channels[i];
    const std::string which = fmt::format("channel {} of {}", i + 1, config.data.channels.size());
    const std::string key = "data.channels";
    const std::string name = printable(channel.name);
    require(!name.empty() && name.size() <= 64, config, key, "{} has a name of {} bytes, expected 1 to 64",
            which, name.size());
    require(name == channel.name && name.find_first_of(" /\\\"'=|") == std::string::npos, config, key,
            "{} is called '{}', expected a name without spaces, controls and any of / \\ \" ' = |", which,
            name);
    require(seen.insert(channel.name).second, config, key,
            "got two channels called '{}', expected unique names", name);
    require(!channel.path.empty(), config, key, "channel '{}' has an empty path, expected a file or folder",
            name);
    for (const auto& field : channel_fields()) {
      ChannelConfig copy = channel;
      const Slot slot = field.slot(copy);
      if (auto* const* real = std::get_if<double*>(&slot))
        check_number(config, fmt::format("{}: {} of '{}'", key, field.name, name), field.traits, **real);
    }
  }
}

void check_train(const Config& config) {
  const TrainConfig& t = config.train;
  const std::string name = printable(t.name);
  require(!name.empty() && name == t.name && name.size() <= 200 && name.find('/') == std::string::npos &&
              name.front() != '.',
          config, "train.name",
          "got '{}', expected the name of a folder: no '/', no control characters, no leading dot", name);
  require(!t.runs.empty(), config, "train.runs", "got '', expected a folder");
  require(t.micro_batch <= t.global_batch, config, "train.micro_batch",
          "got {}, expected at most train.global_batch = {}", t.micro_batch, t.global_batch);
  const long double tokens = static_cast<long double>(t.steps) * static_cast<long double>(t.global_batch) *
                             static_cast<long double>(config.data.seq_len);
  require(tokens < 0x1p62L, config, "train.steps", "got {:.3g} tokens in all, expected fewer than 2^62",
          static_cast<double>(tokens));
}

void check_optimizer(const Config& config) {
  require(config.optimizer.betas.size() == 2, config, "optimizer.betas", "got {} values, expected two",
          config.optimizer.betas.size());
}

void check_recompute_text(const Config& config) {
  const std::string& text = config.parallel.recompute;
  if (parse_recompute(text)) return;
  const std::string nearest = nearest_name(text, {"none", "selective", "full", "group:2"});
  refuse(config, "parallel.recompute", "",
         "got '{}', expected none, selective, full, group:K or a list of them, each but the last with a "
         "count of "
         "blocks (full*4,selective){}",
         printable(text), nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
}

void check_recompute(const Config& config) {
  int64_t blocks = 0;
  for (const RecomputePart& part : parse_recompute(config.parallel.recompute).value_or(RecomputePlan{})) {
    require(part.group <= config.model.layers, config, "parallel.recompute",
            "got groups of {} blocks, expected at most model.layers = {}", part.group, config.model.layers);
    blocks += part.blocks;
  }
  require(blocks <= config.model.layers, config, "parallel.recompute",
          "got policies for {} blocks ('{}'), expected at most model.layers = {}", blocks,
          config.parallel.recompute, config.model.layers);
}

bool fits_tensor_parallel(const ModelConfig& m, int64_t tp) {
  return m.heads % tp == 0 && m.ffn_width % tp == 0 && (m.kv_heads % tp == 0 || tp % m.kv_heads == 0);
}

// Of two that are equally near the smaller one; 1 always fits.
int64_t nearest_tensor_parallel(const ModelConfig& m, int64_t tp) {
  for (int64_t distance = 0;; ++distance) {
    if (tp - distance >= 1 && fits_tensor_parallel(m, tp - distance)) return tp - distance;
    if (tp + distance <= m.heads && fits_tensor_parallel(m, tp + distance)) return tp + distance;
  }
}

// Heads are whole, feed-forward layers cut evenly; a vocabulary may be cut unevenly.
void check_tensor_parallel(const Config& config) {
  const ModelConfig& m = config.model;
  const int64_t tp = config.parallel.tp;
  if (!fits_tensor_parallel(m, tp)) {
    const auto [key, value] = m.heads % tp != 0       ? std::pair("heads", m.heads)
                              : m.ffn_width % tp != 0 ? std::pair("ffn_width", m.ffn_width)
                                                      : std::pair("kv_heads", m.kv_heads);
    refuse(config, "parallel.tp",
           fmt::format("the nearest that this model can be cut in is {}", nearest_tensor_parallel(m, tp)),
           "got {}, which does not divide model.{} = {}", tp, key, value);
  }
  if (config.parallel.sp && tp == 1)
    refuse(config, "parallel.sp", "sequence parallelism shares the tokens among the ranks of parallel.tp",
           "got true with parallel.tp = 1, expected false");
}

bool fits_heads(const ModelConfig& m, int64_t tp, int64_t cp) {
  const int64_t heads = m.heads / tp, kv_heads = std::max<int64_t>(1, m.kv_heads / tp);
  return heads % cp == 0 && (kv_heads % cp == 0 || cp % kv_heads == 0);
}

// A sequence is cut into as many chunks as keep every rank busy; heads are whole.
void check_context_parallel(const Config& config) {
  const ModelConfig& m = config.model;
  const ParallelConfig& p = config.parallel;
  if (p.cp == 1) return;
  const bool ring = p.cp_kind == "ring";
  const int64_t most = ring ? config.data.seq_len / 2 : config.data.seq_len;
  require(p.cp <= most, config, "parallel.cp", "got {}, expected at most {} for data.seq_len = {}: {}", p.cp,
          most, config.data.seq_len,
          ring ? "a ring gives each rank two chunks of a sequence" : "each rank has tokens");
  if (!ring && !fits_heads(m, p.tp, p.cp)) {
    int64_t nearest = p.cp;
    while (!fits_heads(m, p.tp, nearest)) --nearest;
    refuse(config, "parallel.cp",
           fmt::format("the nearest that these heads can be shared out to is {}; parallel.cp_kind = \"ring\" "
                       "asks nothing of them",
                       nearest),
           "got {} with parallel.cp_kind = \"ulysses\", which does not divide model.heads = {} and "
           "model.kv_heads = {}{}",
           p.cp, m.heads, m.kv_heads, p.tp > 1 ? fmt::format(" by parallel.tp = {}", p.tp) : "");
  }
  if (m.family == "moe" && (m.router_aux_loss > 0.0 || m.capacity_factor > 0.0))
    refuse(config, "parallel.cp",
           "balance with model.router_bias_rate, whose counts are those of the whole step",
           "got {}, expected 1 with {}: it is defined over all tokens of a grain", p.cp,
           m.capacity_factor > 0.0 ? "model.capacity_factor" : "model.router_aux_loss");
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
  require(layers == config.model.layers, config, "parallel.stage_layers",
          "got {} layers in all, expected model.layers = {}", layers, config.model.layers);
}

// What can be said of a layout without its ranks; train/layout.h says the rest.
void check_layout(const Config& config) {
  const ParallelConfig& p = config.parallel;
  const int64_t experts = config.model.experts;
  if (p.ep > 1 && experts == 0)
    refuse(config, "parallel.ep", "a model of family moe has some",
           "got {} for a model without experts, expected 1", p.ep);
  if (p.ep > 1 && experts % p.ep != 0) {
    int64_t nearest = std::min(p.ep, experts);
    while (experts % nearest != 0) --nearest;
    refuse(config, "parallel.ep", fmt::format("the nearest that divides is {}", nearest),
           "got {}, which does not divide model.experts = {}", p.ep, experts);
  }
  if (!p.schedule.ends_with(".csv"))
    check_choice(config, "parallel.schedule", p.schedule,
                 {"gpipe", "1f1b", "interleaved", "bfs", "zb-h1", "zb-v", "dualpipe-v"});
  const LaunchConfig& l = config.launch;
  require(l.max_ranks == 0 || l.max_ranks >= l.min_ranks, config, "launch.max_ranks",
          "got {}, expected at least launch.min_ranks = {}", l.max_ranks, l.min_ranks);
}

// Sums along the tree are of f32 grains, ZeRO 2 and 3 scatter grains one by one, and the unit of what error feedback
// keeps must not change with a loss scale.
void check_compression(const Config& config) {
  const ParallelConfig& p = config.parallel;
  const std::string key = "parallel.compression", &kind = p.compression;
  if (kind == "none") return;
  require(p.zero < 2, config, key, "got {} with parallel.zero = {}, expected parallel.zero = 0 or 1", kind,
          p.zero);
  require(p.reduce == "fast", config, key, "got {} with parallel.reduce = \"tree\", expected \"fast\"", kind);
  require(config.precision.compute != "f16", config, key,
          "got {} with precision.compute = \"f16\", expected bf16 or f32", kind);
  for (const auto& [axis, size] : {std::pair{"tp", p.tp}, {"ep", p.ep}})
    require(kind != "powersgd" || size == 1, config, key,
            "got powersgd with parallel.{} = {}, expected bf16, int8 or topk: a part of a matrix has factors "
            "of its own",
            axis, size);
  if (kind != "onebit-adam") return;
  require(
      p.ep == 1, config, key,
      "got onebit-adam with parallel.ep = {}, expected bf16, int8 or topk: its optimizer sums over one group "
      "of ranks",
      p.ep);
  require(p.zero == 0, config, key, "got onebit-adam with parallel.zero = {}, expected parallel.zero = 0",
          p.zero);
  require(config.optimizer.name == "adamw", config, key,
          "got onebit-adam with optimizer.name = \"{}\", expected adamw", config.optimizer.name);
  require(p.error_feedback, config, "parallel.error_feedback",
          "got false with parallel.compression = \"onebit-adam\", expected true");
  if (p.compression_warmup == 0)
    refuse(config, "parallel.compression_warmup", "15 to 25 % of train.steps",
           "got 0 with parallel.compression = \"onebit-adam\", expected at least one step of plain Adam, "
           "which finds "
           "the variance");
}

// Shards are shared by some of the ranks of parallel.dp.
void check_hybrid_sharding(const Config& config) {
  const ParallelConfig& p = config.parallel;
  const std::string key = "parallel.zero_shard";
  if (p.zero_shard == 0) return;
  require(p.zero > 0, config, key, "got {} with parallel.zero = 0, expected parallel.zero = 1, 2 or 3",
          p.zero_shard);
  require(p.zero_shard > 1, config, key,
          "got 1, expected 0 (all ranks of parallel.dp) or at least 2: parallel.zero = 0 keeps all on every "
          "rank");
  require(p.ep == 1, config, key, "got {} with parallel.ep = {}, expected parallel.ep = 1", p.zero_shard,
          p.ep);
  require(p.sync_every == 0, config, key,
          "got {} with parallel.sync_every = {}, expected 0: islands share nothing within a step",
          p.zero_shard, p.sync_every);
  require(p.compression == "none", config, key,
          "got {} with parallel.compression = \"{}\", expected \"none\"", p.zero_shard, p.compression);
}

// Who computes a grain depends on clocks then, so no result may; and ranks that share a model work on the same grains.
void check_balance(const Config& config) {
  const ParallelConfig& p = config.parallel;
  const std::string key = "parallel.balance";
  if (p.balance != "speed") return;
  require(p.reduce == "tree", config, key,
          "got \"speed\" with parallel.reduce = \"{}\", expected \"tree\", whose bits do not depend on who "
          "computes what",
          p.reduce);
  require(p.zero <= 1, config, key,
          "got \"speed\" with parallel.zero = {}, expected 0 or 1: rounds of the others have a grain of "
          "every rank",
          p.zero);
  const std::pair<const char*, int64_t> axes[] = {{"tp", p.tp}, {"pp", p.pp}, {"cp", p.cp}, {"ep", p.ep}};
  for (const auto& [axis, size] : axes)
    require(size == 1, config, key, "got \"speed\" with parallel.{} = {}, expected parallel.{} = 1", axis,
            size, axis);
  require(p.sync_every == 0, config, key, "got \"speed\" with parallel.sync_every = {}, expected 0",
          p.sync_every);
}

// Ranks of other axes than dp and tp would have gradients in several groups; a loss scale is one for all ranks; and
// weights are compared, and kept as the run's result, only where all groups have the same.
void check_two_speed(const Config& config) {
  const ParallelConfig& p = config.parallel;
  const std::string key = "parallel.sync_every";
  if (p.sync_every == 0) return;
  const std::pair<const char*, int64_t> axes[] = {{"pp", p.pp}, {"cp", p.cp}, {"ep", p.ep}};
  for (const auto& [axis, size] : axes)
    require(size == 1, config, key, "got {} with parallel.{} = {}, expected parallel.{} = 1", p.sync_every,
            axis, size, axis);
  require(p.compression == "none", config, key,
          "got {} with parallel.compression = \"{}\", expected \"none\"", p.sync_every, p.compression);
  require(config.precision.compute != "f16", config, key,
          "got {} with precision.compute = \"f16\", expected bf16 or f32", p.sync_every);
  require(config.train.steps % p.sync_every == 0, config, key,
          "got {}, expected a divisor of train.steps = {}", p.sync_every, config.train.steps);
  require(config.train.eval_every % p.sync_every == 0, config, key,
          "got {}, expected a divisor of train.eval_every = {}", p.sync_every, config.train.eval_every);
}

// Servers keep what ZeRO and the other axes would cut in another way, and sum as they are sent; without a common update
// of all workers there is no order of grains, no loss scale and no load of a step.
void check_parameter_servers(const Config& config) {
  const ParallelConfig& p = config.parallel;
  const std::string key = "parallel.servers";
  if (p.servers == 0) {
    require(p.replay.empty(), config, "parallel.replay", "got '{}' without parallel.servers, expected none",
            printable(p.replay));
    return;
  }
  const std::tuple<const char*, int64_t, int64_t> plain[] = {{"tp", p.tp, 1},
                                                             {"pp", p.pp, 1},
                                                             {"cp", p.cp, 1},
                                                             {"ep", p.ep, 1},
                                                             {"zero", p.zero, 0},
                                                             {"zero_shard", p.zero_shard, 0},
                                                             {"sync_every", p.sync_every, 0}};
  for (const auto& [name, value, expected] : plain)
    require(value == expected, config, key, "got {} with parallel.{} = {}, expected parallel.{} = {}",
            p.servers, name, value, name, expected);
  require(p.compression == "none", config, key,
          "got {} with parallel.compression = \"{}\", expected \"none\"", p.servers, p.compression);
  require(p.balance == "even", config, key, "got {} with parallel.balance = \"{}\", expected \"even\"",
          p.servers, p.balance);
  require(config.precision.compute != "f16", config, key,
          "got {} with precision.compute = \"f16\", expected bf16 or f32", p.servers);
  require(config.model.router_bias_rate == 0.0, config, key,
          "got {} with model.router_bias_rate = {}, expected 0: it moves by the load of a whole step",
          p.servers, config.model.router_bias_rate);
  const bool sync = p.consistency == "sync";
  require(
      sync || p.reduce == "fast", config, "parallel.reduce",
      "got \"tree\" with parallel.consistency = \"{}\", expected \"fast\": there is no sum of all workers",
      p.consistency);
  require(!sync || p.replay.empty(), config, "parallel.replay",
          "got '{}' with parallel.consistency = \"sync\", expected none: nothing is left to chance",
          printable(p.replay));
}

}  // namespace

void validate_limits(const Config& config) {
  Config copy = config;  // slots are pointers to mutable members
  for (const auto& field : config_fields()) {
    const Slot slot = field.slot(copy);
    const std::string key = field.key();
    if (auto* const* text = std::get_if<std::string*>(&slot)) {
      check_choice(config, key, **text, field.traits.choices);
    } else if (auto* const* integer = std::get_if<int64_t*>(&slot)) {
      check_number(config, key, field.traits, static_cast<long double>(**integer));
    } else if (auto* const* natural = std::get_if<uint64_t*>(&slot)) {
      check_number(config, key, field.traits, static_cast<long double>(**natural));
    } else if (auto* const* real = std::get_if<double*>(&slot)) {
      check_number(config, key, field.traits, static_cast<long double>(**real));
    } else if (auto* const* reals = std::get_if<std::vector<double>*>(&slot)) {
      for (const double value : **reals)
        check_number(config, key, field.traits, static_cast<long double>(value));
    } else if (auto* const* integers = std::get_if<std::vector<int64_t>*>(&slot)) {
      for (const int64_t value : **integers)
        check_number(config, key, field.traits, static_cast<long double>(value));
    }
  }
  check_recompute_text(config);
}

void validate(const Config& config) {
  validate_limits(config);
  check_model(config);
  check_channels(config);
  check_train(config);
  check_optimizer(config);
  check_tensor_parallel(config);
  check_context_parallel(config);
  check_stage_layers(config);
  check_layout(config);
  check_compression(config);
  check_two_speed(config);
  check_hybrid_sharding(config);
  check_balance(config);
  check_parameter_servers(config);
  check_recompute(config);
}

void validate_data(const Config& config) {
  if (config.data.channels.empty())
    refuse(config, "data.channels", "channels = [ {name = \"en\", path = \"data/en\"} ]",
           "got none, expected at least one channel of text");
}

}  // namespace athanor
