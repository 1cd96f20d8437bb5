#include "athanor/train/engine/worker_role.h"

namespace athanor::train::engine {

WorkerRole::WorkerRole(const Declared& declared) {
  const ServerSettings settings =
      server_settings(declared.config, declared.layout, declared.step.num_channels);
  Group& workers = *declared.groups.role;
  Model& model = declared.model;
  client_ =
      std::make_unique<ServerClient>(model, *declared.groups.exchange, workers, settings, declared.arena,
                                     declared.step.pass.trace, declared.step.pass.clock);
  model.allocate(declared.arena, declared.compute, /*with_master=*/false);
  client_->allocate();
  pipeline_ = make_pipeline(declared);
  WorkerOptions options{
      .step = declared.step,
      .commits = [&config = declared.config](int64_t step) { return is_commit(config, step); },
      .is_sync = settings.consistency == Consistency::sync};
  options.step.pass.pack_weights = false;  // values are pulled while the pass runs
  runner_ =
      std::make_unique<WorkerStep>(model, *client_, *pipeline_, workers, declared.arena, std::move(options));
}

}  // namespace athanor::train::engine
