#include "athanor/observe/metric_fields.h"

namespace athanor::observe {
namespace {

template <auto Member>
MetricSlot of(StepMetrics& m) {
  return &(m.*Member);
}

template <auto Member>
MetricSlot of_experts(StepMetrics& m) {
  if (!m.experts) m.experts.emplace();
  return &((*m.experts).*Member);
}

MetricSlot of_validation(StepMetrics& m) {
  if (!m.valid_loss) m.valid_loss.emplace();
  return &*m.valid_loss;
}

// In every line that is written; lines of earlier versions have none.
bool has_generation(const StepMetrics&) {
  return true;
}
bool has_validation(const StepMetrics& m) {
  return m.valid_loss.has_value();
}
bool has_alarms(const StepMetrics& m) {
  return !m.alarms.empty();
}
bool has_experts(const StepMetrics& m) {
  return m.experts.has_value();
}

}  // namespace

const std::vector<MetricField>& metric_fields() {
  using M = StepMetrics;
  using X = ExpertMetrics;
  constexpr auto counter = MetricKind::counter;
  constexpr auto gauge = MetricKind::gauge;
  constexpr const char* loss = "nats/token";
  static const std::vector<MetricField> fields = {
      {"step", "steps", counter, of<&M::step>},
      {"tokens", "tokens", counter, of<&M::tokens>},
      {"loss", loss, gauge, of<&M::loss>, nullptr, "loss/train"},
      {"channel_loss", loss, gauge, of<&M::channel_loss>, nullptr, "loss_by_channel"},
      {"grad_norm", "", gauge, of<&M::grad_norm>, nullptr, "optimizer/grad_norm"},
      {"lr", "", gauge, of<&M::lr>, nullptr, "optimizer/lr"},
      {"loss_scale", "", gauge, of<&M::loss_scale>, nullptr, "optimizer/loss_scale", 1, 1.0},
      {"tokens_per_second", "tokens/s", gauge, of<&M::tokens_per_second>, nullptr, "speed/tokens_per_second"},
      {"mfu", "fraction of peak", gauge, of<&M::mfu>, nullptr, "speed/mfu_percent", 100},
      {"step_seconds", "s", gauge, of<&M::step_seconds>, nullptr, "speed/step_seconds"},
      {"data_seconds", "s", gauge, of<&M::data_seconds>},
      {"comm_seconds", "s", gauge, of<&M::comm_seconds>},
      {"peak_bytes", "bytes", gauge, of<&M::peak_bytes>, nullptr, "memory/peak_GiB", 1.0 / (1 << 30)},
      {"world_size", "ranks", gauge, of<&M::world_size>},
      {"generation", "", counter, of<&M::generation>, has_generation},
      {"valid_loss", loss, gauge, of_validation, has_validation, "loss/valid"},
      {"valid_channel_loss", loss, gauge, of<&M::valid_channel_loss>, has_validation,
       "loss_by_channel_valid"},
      {"alarms", "", gauge, of<&M::alarms>, has_alarms},
      {"load_imbalance", "max/mean", gauge, of_experts<&X::max_over_mean>, has_experts,
       "experts/load_imbalance"},
      {"load_imbalance_by_layer", "max/mean", gauge, of_experts<&X::layers>, has_experts},
      {"token_drop_rate", "fraction", gauge, of_experts<&X::drop_share>, has_experts,
       "experts/token_drop_rate"},
      {"router_aux_loss", "", gauge, of_experts<&X::aux_loss>, has_experts, "experts/aux_loss"},
      {"router_z_loss", "", gauge, of_experts<&X::z_loss>, has_experts, "experts/z_loss"},
  };
  return fields;
}

}  // namespace athanor::observe
