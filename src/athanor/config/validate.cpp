#include "athanor/config/validate.h"

#include <set>

#include "athanor/base/human.h"
#include "athanor/base/nearest.h"
#include "athanor/config/fields.h"
#include "athanor/config/phases.h"
#include "athanor/config/recompute.h"
#include "athanor/config/refuse.h"
#include "athanor/config/validate_offload.h"
#include "athanor/config/validate_parts.h"

namespace athanor::config {
namespace {

void check_number(const Config& config, const std::string& key, const Traits& traits, long double value) {
  const bool is_auto = traits.auto_is_zero && value == 0;
  if (is_auto || traits.range.contains(value)) return;
  refuse(config, key, "", "got {}, expected {}", static_cast<double>(value), traits.range.expected(value));
}

// What nobody knows of a text without end.
void check_stream(const Config& config, const ChannelConfig& channel) {
  const std::string key = "data.channels",
                    which = fmt::format("channel '{}', whose text has no end yet", channel.name);
  require(channel.fim_rate == 0, config, key, "{}, got fim_rate = {}, expected none", which,
          channel.fim_rate);
  require(channel.epochs == 0, config, key, "{}, got epochs = {}, expected a weight or tokens", which,
          channel.epochs);
  require(config.data.temperature == 0, config, "data.temperature", "got {} beside {}, expected weights",
          config.data.temperature, which);
  require(config.data.packing == "stream", config, "data.packing",
          "got \"{}\" beside {}, expected \"stream\"", config.data.packing, which);
  require(config.phases.empty(), config, key, "{}, is in a run of {} phases, expected a run without", which,
          config.phases.size());
  require(config.parameter_server.servers == 0, config, "parameter_server.servers",
          "got {} beside {}, expected 0", config.parameter_server.servers, which);
  require(!config.data.tokenizer.empty(), config, "data.tokenizer", "got none, expected one for {}", which);
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
    if (channel.is_stream()) check_stream(config, channel);
    require(channel.fim_rate <= 1 && channel.fim_spm_rate <= 1, config, key,
            "channel '{}' has fim_rate = {}, fim_spm_rate = {}, expected at most 1", name, channel.fim_rate,
            channel.fim_spm_rate);
    require(channel.fim_rate == 0 || (channel.messages.empty() && channel.prompt.empty()), config, key,
            "channel '{}' has fim_rate = {} beside conversations, expected texts", name, channel.fim_rate);
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
  require(t.micro_batch_size <= t.global_batch_size, config, "train.micro_batch_size",
          "got {}, expected at most train.global_batch_size = {}", t.micro_batch_size, t.global_batch_size);
  const long double tokens = static_cast<long double>(t.steps) *
                             static_cast<long double>(t.global_batch_size) *
                             static_cast<long double>(config.data.seq_len);
  require(tokens < 0x1p62L, config, "train.steps", "got {:.3g} tokens in all, expected fewer than 2^62",
          static_cast<double>(tokens));
}

void check_optimizer(const Config& config) {
  require(config.optimizer.betas.size() == 2, config, "optimizer.betas", "got {} values, expected two",
          config.optimizer.betas.size());
  for (const OptimizerGroupConfig& group : config.optimizer.group) {
    require(!group.match.empty(), config, "optimizer.group",
            "got match = \"\", expected a pattern over parameter names");
    require(group.weight_decay == -1.0 || group.weight_decay >= 0.0, config, "optimizer.group",
            "got weight_decay = {} for \"{}\", expected at least 0, or -1 for optimizer.weight_decay",
            group.weight_decay, printable(group.match));
  }
  if (config.optimizer.name != "lamb") return;
  require(config.train.device != "cuda", config, "optimizer.name",
          "got lamb with train.device = \"cuda\", expected adamw or sgd: lamb is for the CPU");
  require(config.parameter_server.servers == 0, config, "optimizer.name",
          "got lamb with parameter_server.servers = {}, expected adamw or sgd: a server has only a part of "
          "each tensor",
          config.parameter_server.servers);
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
  check_layout(config);
  check_data_parallel(config);
  validate_offload(config);
  check_recompute(config);
  check_guard(config);
  check_objective(config);
  check_samples(config);
  check_phases(config);
}

void validate_data(const Config& config) {
  for (const PhaseConfig& phase : phases_of(config))
    if (phase.config.data.channels.empty())
      refuse(config, "data.channels", "channels = [ {name = \"en\", path = \"data/en\"} ]",
             "got none{}, expected at least one channel of text",
             phase.name.empty() ? "" : fmt::format(" in the phase '{}'", phase.name));
}

}  // namespace athanor::config
