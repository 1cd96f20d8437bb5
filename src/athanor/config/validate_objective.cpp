#include <algorithm>

#include "athanor/config/refuse.h"
#include "athanor/config/validate_parts.h"

namespace athanor::config {

void check_objective(const Config& config) {
  const DataConfig& data = config.data;
  const bool masked = masks_tokens(config);
  require(masked == config.model.is_encoder(), config, "data.objective",
          "got {} with model.model_type = \"{}\", expected {}: {}", data.objective, config.model.model_type,
          config.model.is_encoder() ? "masked" : "next-token",
          config.model.is_encoder() ? "an encoder sees the next token"
                                    : "a decoder sees one side of a mask only");
  if (!masked) return;
  require(data.mask_random_rate + data.mask_keep_rate <= 1.0, config, "data.mask_random_rate",
          "got {} beside data.mask_keep_rate = {}, expected at most 1 together", data.mask_random_rate,
          data.mask_keep_rate);
  for (const ChannelConfig& channel : data.channels)
    require(channel.messages.empty() && channel.prompt.empty() && channel.fim_rate == 0, config,
            "data.channels",
            "channel '{}' has conversations or fill-in-the-middle, expected text: tokens of it are masked",
            channel.name);
}

}  // namespace athanor::config
