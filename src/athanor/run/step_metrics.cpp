#include "athanor/run/step_metrics.h"

#include <cmath>

namespace athanor::run {

StepMetrics step_metrics(const StepResult& result, const TrainState& state,
                         const std::vector<Channel>& channels, const StepMeasures& measured) {
  StepMetrics metrics;
  metrics.step = state.step;
  metrics.tokens = state.tokens;
  metrics.loss = result.loss;
  for (size_t c = 0; c < channels.size(); ++c)
    if (std::isfinite(result.channel_loss[c]))
      metrics.channel_loss.emplace_back(channels[c].name(), result.channel_loss[c]);
  metrics.grad_norm = result.grad_norm;
  metrics.lr = result.lr;
  metrics.loss_scale = result.loss_scale;
  metrics.tokens_per_second = static_cast<double>(result.tokens_read) / measured.seconds;
  if (measured.peak_flops > 0.0)
    metrics.mfu = metrics.tokens_per_second * measured.flops_per_token / measured.peak_flops;
  metrics.step_seconds = measured.seconds;
  metrics.data_seconds = result.seconds.data;
  metrics.comm_seconds = result.seconds.comm;
  metrics.peak_bytes = measured.peak_bytes;
  metrics.world_size = measured.world_size;
  metrics.generation = measured.generation;
  if (const auto& experts = result.experts)
    metrics.experts = ExpertMetrics{experts->max_over_mean, experts->layers, experts->drop_share,
                                    experts->aux_loss, experts->z_loss};
  return metrics;
}

}  // namespace athanor::run
