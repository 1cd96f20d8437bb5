#include "athanor/engine/role.h"

#include "athanor/engine/data_parallel_role.h"
#include "athanor/engine/server_role.h"
#include "athanor/engine/worker_role.h"
#include "athanor/layout/stages.h"

namespace athanor::engine {

StepResult Role::step(TrainState&, const std::function<const Batch&()>&, bool) {
  fail("training: got a step on a parameter server, expected serve()");
}

Served Role::serve() {
  fail("training: got serve() on a rank that trains, expected step()");
}

std::unique_ptr<Role> make_role(const Declared& declared, Env& env, HostMemory* host) {
  const Layout& layout = declared.layout;
  if (layout.servers == 0) return std::make_unique<DataParallelRole>(declared, env, host);
  if (layout.is_server(declared.groups.all->rank())) return std::make_unique<ServerRole>(declared);
  return std::make_unique<WorkerRole>(declared);
}

std::unique_ptr<PipelineRunner> make_pipeline(const Declared& declared) {
  const Layout& layout = declared.layout;
  return std::make_unique<PipelineRunner>(
      declared.model,
      PipelineOptions{.parts = cut_model(layout.stage_layers),
                      .schedule = [&layout](int count) { return pipeline_schedule(layout, count); },
                      .group = declared.groups.pipeline,
                      .arena = &declared.arena,
                      .recompute = parse_recompute(layout.recompute).value_or(RecomputePlan{}),
                      .token_ranks = layout.sp ? layout.tp : 1,
                      .trace = declared.step.pass.trace,
                      .clock = declared.step.pass.clock});
}

}  // namespace athanor::engine
