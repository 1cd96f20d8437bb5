#include "athanor/config/refuse.h"
#include "athanor/config/validate_parts.h"

namespace athanor::config {

void check_samples(const Config& config) {
  const TrainConfig& t = config.train;
  if (t.sample_every == 0) {
    const TrainConfig defaults;
    const auto without_effect = [&](const char* key, bool is_default) {
      if (!is_default)
        refuse(config, key, "say how often text is sampled, in steps",
               "has no effect while train.sample_every is 0");
    };
    without_effect("train.sample_prompts", t.sample_prompts == defaults.sample_prompts);
    without_effect("train.sample_tokens", t.sample_tokens == defaults.sample_tokens);
    without_effect("train.sample_temperature", t.sample_temperature == defaults.sample_temperature);
    return;
  }
  require(!config.model.is_encoder(), config, "train.sample_every",
          "got {} with model.model_type = \"{}\", expected 0: an encoder continues no text", t.sample_every,
          config.model.model_type);
  // Every rank that generates a sample needs the whole model and the whole sequence.
  const ParallelConfig& p = config.parallel;
  const auto whole_model = [&](const char* key, int64_t value, int64_t expected, const char* reason) {
    require(value == expected, config, "train.sample_every", "got {} with {} = {}, expected 0: {}",
            t.sample_every, key, value, reason);
  };
  whole_model("parallel.pp", p.pp, 1, "sampling needs all layers on a rank");
  whole_model("parallel.tp", p.tp, 1, "sampling needs whole layers on a rank");
  whole_model("parallel.cp", p.cp, 1, "sampling needs whole sequences on a rank");
  whole_model("parameter_server.servers", config.parameter_server.servers, 0,
              "sampling needs the parameters on a rank");
}

}  // namespace athanor::config
