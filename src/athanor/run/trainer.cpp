#include "athanor/run/trainer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/base/host_memory.h"
#include "athanor/base/human.h"
#include "athanor/base/interrupted.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/config/effects.h"
#include "athanor/config/presets.h"
#include "athanor/config/print.h"
#include "athanor/config/validate.h"
#include "athanor/data/dataset.h"
#include "athanor/data/loader.h"
#include "athanor/engine/device.h"
#include "athanor/engine/load_balancer.h"
#include "athanor/engine/memory_plan.h"
#include "athanor/engine/parameter_servers.h"
#include "athanor/engine/replica_groups.h"
#include "athanor/engine/setup.h"
#include "athanor/evaluate/perplexity.h"
#include "athanor/kernels/table.h"
#include "athanor/models/load.h"
#include "athanor/run/agreement.h"
#include "athanor/run/doubtful_data.h"
#include "athanor/run/header.h"
#include "athanor/run/recorder.h"
#include "athanor/run/run_folder.h"
#include "athanor/run/run_keeper.h"
#include "athanor/run/samples.h"
#include "athanor/run/save_schedule.h"
#include "athanor/run/server_run.h"
#include "athanor/run/step_metrics.h"

namespace athanor::run {
namespace {

TrainReport train_in(Run& run, World& world) {
  run.resolve();
  Segment segment(run, world);
  Group& group = segment.all();
  try {
    run.open_data();
  } catch (const Interrupted&) {  // the next line tells the other ranks
  }
  if (is_asked_to_stop(run.io, group)) {
    run.report.status = "interrupted";
    if (run.io.console != nullptr)
      run.io.console->message("interrupted before the first step: the same command starts again");
    return run.report;
  }
  agree(group, data_facts(run.data.identity),
        "all ranks train on the same tokenizer and texts: copy them to all hosts");
  const MemoryPlan plan = plan_that_fits({.config = run.config,
                                          .num_channels = static_cast<int64_t>(run.data.channels.size()),
                                          .rank = group.rank(),
                                          .world_size = group.size(),
                                          .layout = segment.layout()},
                                         run.io.ranks_of_host);
  run.open(group);
  const int64_t steps = run.config.train.steps;
  if (run.state.step >= steps) {
    run.keeper.settle(run.config.checkpoint.keep, *run.recorder);
    return run.keeper.idle_report(run.state, steps, group.size(), *run.recorder);
  }
  run.bind_thread();
  run.report.planned_bytes = static_cast<int64_t>(plan.usage.peak_total);
  if (run.state.step > 0 && run.io.env.exists(run.folder.file("report.json")))
    run.report.restore(run.io.env.read_text(run.folder.file("report.json")));
  run.keeper.begin();
  run.write_report("running");
  group.barrier("memory");  // all ranks measure the free memory before any rank allocates
  segment.build(plan.layout.recompute);
  run.report.params = segment.engine().model->num_params();
  run.recorder->header("athanor · " + run.config.train.name,
                       header_rows(run.config, segment.engine(), run.data.channels, plan, *run.queue,
                                   run.io.placement, run.state.step, run.folder.path));
  run.say_doubts();
  run.recorder->open(run.state.step, print_config(run.config));
  run.keeper.trains();
  segment.evaluate_first();
  run.write_report("running");
  const Segment::End end = segment.train();
  segment.engine().role->settle();
  run.keeper.settle(run.config.checkpoint.keep, *run.recorder);
  if (run.saved_step == run.state.step && group.rank() == 0)
    run.report.digest = Checkpoint::open(run.io.env, run.keeper.checkpoint()).digest();
  run.write_report(end == Segment::End::interrupted ? "interrupted" : "finished");
  run.recorder->finish(run.report, ending_of(run.report, run.config, run.state.step, run.saved_step));
  return run.report;
}

}  // namespace

int threads_of_rank(const Config& config, int ranks_of_processors) {
  if (config.train.threads > max_threads())
    throw ConfigError(fmt::format("train.threads: got {}, expected at most {} on {} processors",
                                  config.train.threads, max_threads(), num_usable_cpus()));
  if (config.train.threads > 0) return static_cast<int>(config.train.threads);
  return std::max(1, num_usable_cpus() / std::max(1, ranks_of_processors));
}

TrainReport train(const Config& config, World& world, const TrainIo& io) {
  std::string note;
  const Config agreed = agree_on_settings(config, world.all(), io.highest_isa, &note);
  if (!note.empty() && io.console != nullptr) io.console->message(note);
  Run run(agreed, world, io);
  try {
    return train_in(run, world);
  } catch (const NotFinite& error) {
    const NotFinite whole = run.keeper.with_checkpoint(error);
    run.failed(whole.what());
    throw NotFinite(whole);
  } catch (const std::exception& error) {
    run.failed(error.what());
    throw;
  }
}

}  // namespace athanor::run
