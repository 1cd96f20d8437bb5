#include "athanor/engine/server_role.h"

namespace athanor::engine {

ServerRole::ServerRole(const Declared& declared) {
  ServerOptions options{.schedule = declared.step.schedule,
                        .max_grad_norm = declared.step.max_grad_norm,
                        .on_push = {},
                        .replay = declared.logs.replay,
                        .pushes = declared.logs.pushes};
  if (declared.logs.log != nullptr)
    options.on_push = [log = declared.logs.log](const PushRecord& record) { log->write(record); };
  Model& model = declared.model;
  optimizer_ = make_optimizer(declared.optimizer, model.params());
  server_ = std::make_unique<ParameterServer>(
      model, *optimizer_, *declared.groups.exchange, *declared.groups.role,
      server_settings(declared.config, declared.layout, declared.step.num_channels), declared.arena,
      std::move(options));
  model.allocate(declared.arena, declared.parallel.dtype, /*with_master=*/true);
  optimizer_->allocate(declared.arena);
}

void ServerRole::publish(const TrainState& state) {
  server_->start({.step = state.step,
                  .updates = state.updates,
                  .tokens = state.tokens,
                  .stop = false,
                  .loss_scale = state.loss_scale});
}

}  // namespace athanor::engine
