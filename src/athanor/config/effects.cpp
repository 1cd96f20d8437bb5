#include "athanor/config/effects.h"

#include <algorithm>
#include <array>
#include <optional>

#include "athanor/config/fields.h"
#include "athanor/config/phases.h"
#include "athanor/config/presets.h"
#include "athanor/config/print.h"
#include "athanor/config/refuse.h"

namespace athanor::config {
namespace {

struct Effect {
  const char* key;
  bool (*acts)(const Config&);
  const char* without;  // the setting that would make it act
};

bool is_moe(const Config& c) {
  return c.model.has_experts();
}
bool scales_rotations(const Config& c) {
  return c.model.rope_scaling != "none";
}
bool is_llama3(const Config& c) {
  return c.model.rope_scaling == "llama3";
}
bool is_yarn(const Config& c) {
  return c.model.rope_scaling == "yarn";
}
bool has_moments(const Config& c) {
  return c.optimizer.name == "adamw" || c.optimizer.name == "lamb";
}
bool is_sgd(const Config& c) {
  return c.optimizer.name == "sgd";
}
bool is_f16(const Config& c) {
  return c.precision.compute == "f16";
}
bool decays(const Config& c) {
  const ScheduleConfig& s = c.schedule;
  return s.decay != "constant" && s.decay != "inverse_sqrt" &&
         !(s.decay == "wsd" && s.wsd_decay_fraction == 0.0);
}
bool has_stages(const Config& c) {
  return c.parallel.pp > 1;
}
// A schedule in a file says for how many ranks it is: layout/layout.h compares.
bool has_stages_or_file(const Config& c) {
  return has_stages(c) || c.parallel.schedule.ends_with(".csv");
}
bool compresses(const Config& c) {
  return c.compression.method != "none";
}
bool synchronizes(const Config& c) {
  return c.local_sgd.sync_interval > 0;
}
bool has_servers(const Config& c) {
  return c.parameter_server.servers > 0;
}
bool uses_disk(const Config& c) {
  const OffloadConfig& o = c.offload;
  return o.optimizer == "disk" || o.gradients == "disk" || o.parameters == "disk" || o.activations == "disk";
}
bool writes_samples(const Config& c) {
  return c.train.sample_every > 0;
}
// The width of dense layers, and of experts where theirs is not given. A resolved config says the one that follows.
bool has_dense_layers(const Config& c) {
  const auto origin = c.origins.find("model.moe_intermediate_size");
  const bool derived = origin != c.origins.end() && origin->second.kind == Origin::Kind::derived;
  ModelConfig left_out = c.model;
  left_out.intermediate_size = 0;
  return !is_moe(c) || c.model.first_k_dense_replace > 0 || derived ||
         c.model.moe_intermediate_size == c.model.intermediate_size ||
         complete_model(left_out, 0, c.data.seq_len).intermediate_size == c.model.intermediate_size;
}

bool rolls_back(const Config& c) {
  return c.guard.loss_spike == "act" || c.guard.grad_norm == "act" || c.guard.update_size == "act";
}

bool has_streams(const Config& c) {
  return std::any_of(c.data.channels.begin(), c.data.channels.end(),
                     [](const ChannelConfig& channel) { return channel.is_stream(); });
}

constexpr const char* kRotates = "a model.model_type other than gpt2 and bert, which learn their positions";
constexpr const char* kMasked = "data.objective = \"masked\"";
constexpr const char* kRollsBack = "guard.loss_spike, grad_norm or update_size = \"act\"";
constexpr const char* kLlama3 = "model.rope_scaling = \"llama3\"";
constexpr const char* kYarn = "model.rope_scaling = \"yarn\"";
constexpr const char* kMoe = "model.model_type = \"mixtral\" or \"moe\"";
constexpr const char* kSamples = "train.sample_every above 0";
constexpr const char* kValidation = "data.valid_fraction above 0, or a channel with valid_path";

constexpr std::array kEffects = {
    Effect{"model.intermediate_size", has_dense_layers,
           "model.first_k_dense_replace above 0 (the experts have moe_intermediate_size)"},
    Effect{"model.rope_theta", [](const Config& c) { return c.model.has_rope(); }, kRotates},
    Effect{"model.rope_scaling", [](const Config& c) { return c.model.has_rope(); }, kRotates},
    Effect{"model.rope_factor", scales_rotations, "model.rope_scaling"},
    Effect{"model.rope_original_length", [](const Config& c) { return is_llama3(c) || is_yarn(c); },
           "model.rope_scaling = \"llama3\" or \"yarn\""},
    Effect{"model.rope_low_freq_factor", is_llama3, kLlama3},
    Effect{"model.rope_high_freq_factor", is_llama3, kLlama3},
    Effect{"model.rope_beta_fast", is_yarn, kYarn},
    Effect{"model.rope_beta_slow", is_yarn, kYarn},
    Effect{"model.rope_truncate", is_yarn, kYarn},
    Effect{"model.rope_attention_factor", is_yarn, kYarn},
    Effect{"model.num_experts_per_tok", is_moe, kMoe},
    Effect{"model.moe_intermediate_size", is_moe, kMoe},
    Effect{"model.n_shared_experts", is_moe, kMoe},
    Effect{"model.first_k_dense_replace", is_moe, kMoe},
    Effect{"model.scoring_func", is_moe, kMoe},
    Effect{"model.norm_topk_prob", is_moe, kMoe},
    Effect{"model.routed_scaling_factor", is_moe, kMoe},
    Effect{"model.router_aux_loss_coef", is_moe, kMoe},
    Effect{"model.router_z_loss_coef", is_moe, kMoe},
    Effect{"model.router_bias_update_rate", is_moe, kMoe},
    Effect{"model.capacity_factor", is_moe, kMoe},
    Effect{"data.mask_rate", masks_tokens, kMasked},
    Effect{"data.mask_random_rate", masks_tokens, kMasked},
    Effect{"data.mask_keep_rate", masks_tokens, kMasked},
    Effect{"data.mask_whole_words", masks_tokens, kMasked},
    Effect{"data.mask_token", masks_tokens, kMasked},
    Effect{"data.shuffle_window", has_streams, "a channel with follow = true or path = \"-\""},
    Effect{"train.eval_every", [](const Config& c) { return has_validation(c) || c.train.eval_every == 0; },
           kValidation},
    Effect{"train.eval_tokens", has_validation, kValidation},
    Effect{"train.initial_eval_tokens",
           [](const Config& c) { return has_validation(c) || c.train.initial_eval_tokens == 0; },
           kValidation},
    Effect{"train.sample_prompts", writes_samples, kSamples},
    Effect{"train.sample_tokens", writes_samples, kSamples},
    Effect{"train.sample_temperature", writes_samples, kSamples},
    Effect{"train.isa", [](const Config& c) { return c.train.device != "cuda"; },
           "train.device = \"cpu\" (a device has no instruction sets)"},
    Effect{"optimizer.betas", has_moments, "optimizer.name = \"adamw\" or \"lamb\""},
    Effect{"optimizer.eps", has_moments, "optimizer.name = \"adamw\" or \"lamb\""},
    Effect{"optimizer.bias_correction", has_moments, "optimizer.name = \"adamw\" or \"lamb\""},
    Effect{"optimizer.momentum", is_sgd, "optimizer.name = \"sgd\""},
    Effect{"schedule.min_lr_ratio", decays, "a schedule.decay that has an end below optimizer.lr"},
    Effect{"schedule.wsd_decay_fraction", [](const Config& c) { return c.schedule.decay == "wsd"; },
           "schedule.decay = \"wsd\""},
    Effect{"schedule.power", [](const Config& c) { return c.schedule.decay == "polynomial"; },
           "schedule.decay = \"polynomial\""},
    Effect{"schedule.warmup_init_ratio", [](const Config& c) { return c.schedule.warmup_steps > 0; },
           "schedule.warmup_steps above 0"},
    Effect{"precision.loss_scale", is_f16, "precision.compute = \"f16\""},
    Effect{"precision.loss_scale_window", is_f16, "precision.compute = \"f16\""},
    Effect{"parallel.cp_method", [](const Config& c) { return c.parallel.cp > 1; }, "parallel.cp above 1"},
    Effect{"parallel.load_balance_every", [](const Config& c) { return c.parallel.load_balance == "speed"; },
           "parallel.load_balance = \"speed\""},
    Effect{"parallel.schedule", has_stages_or_file, "parallel.pp above 1"},
    Effect{"parallel.virtual_stages",
           [](const Config& c) { return has_stages_or_file(c) || c.parallel.virtual_stages == 1; },
           "parallel.pp above 1"},
    Effect{"parallel.stage_layers", has_stages, "parallel.pp above 1"},
    Effect{"compression.ratio", [](const Config& c) { return c.compression.method == "topk"; },
           "compression.method = \"topk\""},
    Effect{"compression.rank", [](const Config& c) { return c.compression.method == "powersgd"; },
           "compression.method = \"powersgd\""},
    Effect{"compression.warmup_steps", compresses, "compression.method"},
    Effect{"compression.error_feedback",
           [](const Config& c) {
             return compresses(c) || (synchronizes(c) && c.local_sgd.compression != "none");
           },
           "compression.method (or local_sgd.compression)"},
    Effect{"local_sgd.group_size", synchronizes, "local_sgd.sync_interval above 0"},
    Effect{"local_sgd.outer_lr", synchronizes, "local_sgd.sync_interval above 0"},
    Effect{"local_sgd.outer_momentum", synchronizes, "local_sgd.sync_interval above 0"},
    Effect{"local_sgd.compression", synchronizes, "local_sgd.sync_interval above 0"},
    Effect{"parameter_server.consistency", has_servers, "parameter_server.servers above 0"},
    Effect{"parameter_server.staleness",
           [](const Config& c) { return has_servers(c) && c.parameter_server.consistency == "bounded"; },
           "parameter_server.servers above 0 and parameter_server.consistency = \"bounded\""},
    Effect{"offload.path", uses_disk, "an [offload] setting of \"disk\""},
    Effect{"snapshot.every_steps", [](const Config& c) { return c.snapshot.mode == "copy"; },
           "snapshot.mode = \"copy\""},
    Effect{"guard.state_hash_every", [](const Config& c) { return c.guard.state_hash != "off"; },
           "guard.state_hash other than \"off\""},
    Effect{"guard.rollback_steps", rolls_back, kRollsBack},
    Effect{"guard.max_rollbacks",
           [](const Config& c) { return rolls_back(c) || c.guard.state_hash == "act"; },
           "guard.loss_spike, grad_norm, update_size or state_hash = \"act\""},
};

// Read and checked by every program so far, and used by none.
struct Absent {
  const char* key;
  const char* what;
};

constexpr std::array kAbsent = {
    Absent{"snapshot.peers", "copies on other hosts are"},
};

// What the config would say without the user: the program's defaults, in [model] those of its preset.
Config unset(const Config& config) {
  Config base;
  if (!config.model.preset.empty()) base.model = preset_model(config.model.preset);
  return base;
}

bool is_set(const Config& config, const Config& base, const char* key) {
  const auto origin = config.origins.find(key);
  return origin != config.origins.end() && origin->second.by_user() &&
         setting_text(config, key) != setting_text(base, key);
}

// What the run sets acts where it acts in any phase.
bool acts_in_any(const Effect& effect, const std::vector<PhaseConfig>& phases) {
  return std::any_of(phases.begin(), phases.end(),
                     [&](const PhaseConfig& phase) { return effect.acts(phase.config); });
}

}  // namespace

bool has_validation(const Config& config) {
  return config.data.valid_fraction > 0.0 ||
         std::any_of(config.data.channels.begin(), config.data.channels.end(),
                     [](const ChannelConfig& channel) { return !channel.valid_path.empty(); });
}

bool is_absent(std::string_view key) {
  return std::any_of(kAbsent.begin(), kAbsent.end(), [&](const Absent& absent) { return absent.key == key; });
}

std::vector<std::string> check_effects(const Config& config, const std::function<Config()>& file_alone) {
  const Config base = unset(config);
  for (const Absent& absent : kAbsent)
    if (is_set(config, base, absent.key))
      refuse(config, absent.key, "the same command resumes a run that has ended, on any number of ranks",
             "got {}, expected {}: {} not there yet", setting_text(config, absent.key),
             setting_text(base, absent.key), absent.what);
  const std::vector<PhaseConfig> phases = phases_of(config);
  std::optional<std::vector<PhaseConfig>> of_file;
  const auto file_phases = [&]() -> const std::vector<PhaseConfig>& {
    if (!of_file) of_file = file_alone ? phases_of(file_alone()) : std::vector<PhaseConfig>{};
    return *of_file;
  };
  std::vector<std::string> switched_off;
  // `whose` has the setting; `acted`: it does by the file alone.
  const auto refuse_or_tell = [&](const Effect& effect, const Config& whose,
                                  const std::function<bool()>& acted) {
    const Origin& origin = whose.origins.find(effect.key)->second;
    if (origin.kind != Origin::Kind::file || !acted())
      refuse(whose, effect.key, fmt::format("leave {} out, or set {}", effect.key, effect.without),
             "got {}, which has no effect without {}", setting_text(whose, effect.key), effect.without);
    switched_off.push_back(fmt::format("{}: {} = {} has no effect without {}, which --set switched off",
                                       origin.text, effect.key, setting_text(whose, effect.key),
                                       effect.without));
  };
  for (const Effect& effect : kEffects) {
    if (is_set(config, base, effect.key) && !acts_in_any(effect, phases))
      refuse_or_tell(effect, config, [&] { return acts_in_any(effect, file_phases()); });
    for (size_t i = 0; i < config.phases.size(); ++i) {
      const Config& of_phase = phases[i].config;
      if (!config.phases[i].settings.contains(effect.key) || !is_set(of_phase, base, effect.key) ||
          effect.acts(of_phase))
        continue;
      with_phase_named(config, i, [&] {
        refuse_or_tell(effect, of_phase,
                       [&] { return i < file_phases().size() && effect.acts(file_phases()[i].config); });
      });
    }
  }
  return switched_off;
}

}  // namespace athanor::config
