#include "athanor/run/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "athanor/base/check.h"
#include "athanor/base/error.h"
#include "athanor/base/interrupted.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/checkpoint/snapshot.h"
#include "athanor/config/print.h"
#include "athanor/engine/memory_plan.h"
#include "athanor/layout/layout.h"
#include "athanor/run/agreement.h"
#include "athanor/run/header.h"
#include "athanor/run/run.h"
#include "athanor/run/segment.h"

namespace athanor::run {
namespace {

// A refusal names the phase that it is about.
template <typename Work>
auto in_phase(const RunPhase& phase, const Work& work) {
  try {
    return work();
  } catch (const ConfigError& error) {
    if (phase.name.empty()) throw;
    throw ConfigError(phase.text() + ": " + error.what(), error.hint());
  } catch (const Error& error) {
    if (phase.name.empty()) throw;
    throw Error(phase.text() + ": " + error.what(), error.hint());
  }
}

// The layout of each phase: one that is illegal is refused before anything is read.
std::vector<Layout> layouts_of(const Run& run, Group& group) {
  std::vector<Layout> layouts;
  for (const RunPhase& phase : run.phases) {
    if (counts_hosts(phase.config))
      agree(group, {{"ranks of the host", fmt::format("{}", run.io.ranks_of_host)}},
            "groups of local_sgd.sync_interval need as many ranks on every host");
    layouts.push_back(in_phase(phase, [&] {
      Layout layout =
          make_layout(phase.config, {.world_size = group.size(), .ranks_of_host = run.io.ranks_of_host});
      choose_snapshot(phase.config, layout, /*is_launched=*/false);  // refuses what cannot be
      return layout;
    }));
  }
  return layouts;
}

// The plan of a phase, with the slots of its snapshots where it may have them: on all ranks or on none.
MemoryPlan plan_with_snapshot(const Run& run, PlanRequest request, Group& group) {
  request.snapshot = choose_snapshot(request.config, *request.layout, run.io.snapshot_fd >= 0);
  if (!request.snapshot.may_be_off) return plan_that_fits(std::move(request), run.io.ranks_of_host);
  std::optional<MemoryPlan> plan;
  try {
    plan = plan_that_fits(request, run.io.ranks_of_host);
  } catch (const ConfigError&) {
    throw;
  } catch (const Error&) {  // does not fit
  }
  double without = plan ? 0.0 : 1.0;
  group.all_reduce(&without, 1, Dtype::f64, "snapshot").wait();
  if (without == 0.0) return std::move(*plan);
  request.snapshot = {.why = "there is no memory for them"};
  return plan_that_fits(std::move(request), run.io.ranks_of_host);
}

// The plan of each phase. What does not fit is refused before the first step of any.
std::vector<MemoryPlan> plan_phases(const Run& run, const std::vector<Layout>& layouts, Group& group) {
  std::vector<MemoryPlan> plans;
  uint64_t snapshot_bytes = 0;
  for (const RunPhase& phase : run.phases) {
    plans.push_back(in_phase(phase, [&] {
      return plan_with_snapshot(run,
                                {.config = phase.config,
                                 .num_channels = static_cast<int64_t>(phase.data.channels.size()),
                                 .rank = group.rank(),
                                 .world_size = group.size(),
                                 .layout = layouts[plans.size()],
                                 .snapshot_before_bytes = snapshot_bytes,
                                 .snapshot_after = &phase != &run.phases.back()},
                                group);
    }));
    snapshot_bytes = plans.back().snapshot_bytes;
  }
  return plans;
}

// The largest need of any phase.
uint64_t most_bytes(const std::vector<MemoryPlan>& plans) {
  uint64_t most = 0;
  for (const MemoryPlan& plan : plans) most = std::max(most, plan.usage.peak_total);
  return most;
}

void show_header(Run& run, const Segment& segment, const MemoryPlan& plan) {
  const RunPhase& phase = run.phase();
  Rows rows = header_rows(phase.config, segment.engine(), phase.data.channels, plan, *run.queue,
                          run.io.placement, run.state.step, run.folder.path);
  if (!phase.name.empty()) {
    std::string names;
    for (const RunPhase& each : run.phases)
      names += fmt::format("{}{}: {} to {}", names.empty() ? "" : ", ", each.name, each.first_step,
                           each.last_step);
    rows.emplace_back("phases", names);
  }
  run.recorder->header("athanor · " + run.config.train.name, rows);
}

// The segments of a run, one after the other.
class Segments {
 public:
  Segments(Run& run, Rendezvous& rendezvous, const Meeting& first, std::vector<MemoryPlan> plans)
      : run_(run), rendezvous_(rendezvous), world_(first.world), plans_(std::move(plans)) {}

  Segment::End train() {
    for (;;) {
      try {
        begin();
        const Segment::End end = segment_->train();
        segment_->engine().role->settle();
        if (end != Segment::End::phase) return end;
        snapshot_ = segment_->snapshot();
        segment_.reset();
      } catch (const Recoverable& failure) {
        if (!go_on_in_another_world(failure.what())) throw;
      }
    }
  }

 private:
  void begin() {
    const RunPhase& phase = run_.phase();
    const MemoryPlan& plan = plans_[static_cast<size_t>(&phase - run_.phases.data())];
    segment_ = std::make_unique<Segment>(run_, *world_, phase, plan);
    segment_->build(snapshot_ ? &*snapshot_ : nullptr);
    if (!is_shown_) {
      run_.report.params = segment_->engine().model->num_params();
      show_header(run_, *segment_, plan);
      run_.say_doubts();
      run_.begin(*world_, print_config(run_.config));
      run_.keeper.trains();
      is_shown_ = true;
      segment_->evaluate_first();
      run_.write_report("running");
    } else {
      run_.begin(*world_, print_config(run_.config));
      if (run_.state.step + 1 == phase.first_step)
        run_.recorder->message(fmt::format(
            "step {}: {} begins, {} tokens a step, layout {}", run_.state.step + 1, phase.text(),
            phase.config.train.global_batch_size * phase.config.data.seq_len, plan.layout.text()));
    }
    snapshot_.reset();
  }

  // A group is broken. The next segment starts from the newest step that all ranks have done.
  bool go_on_in_another_world(const std::string& why) {
    world_->abort(why);  // nobody waits for this rank
    const std::optional<Meeting> meeting = rendezvous_.next(why);
    if (!meeting) return false;
    if (!keep_common_step(meeting->world->all())) return false;
    segment_.reset();
    world_ = meeting->world;
    plans_ = plan_phases(run_, layouts_of(run_, world_->all()), world_->all());
    run_.recorder->message(fmt::format("step {}: goes on in generation {}: {}", run_.state.step + 1,
                                       run_.generation_of(*world_), meeting->why));
    return true;
  }

  // Collective. False: some rank has no whole state of a step that the others have.
  bool keep_common_step(Group& group) {
    const bool has_values = segment_ != nullptr && segment_->is_built();
    std::vector<int64_t> own;
    if (has_values) own = segment_->engine().whole_steps(run_.state);
    if (!has_values && snapshot_) own = {snapshot_->head().step};
    const std::optional<int64_t> step = common_step(group, own, !has_values && !snapshot_);
    if (!step) return false;
    if (has_values) {
      snapshot_ = segment_->go_back_to(*step);
    } else if (*step >= 0 && !snapshot_) {
      snapshot_.emplace();  // others have the values
    }
    return true;
  }

  Run& run_;
  Rendezvous& rendezvous_;
  World* world_;
  std::vector<MemoryPlan> plans_;  // of each phase
  std::unique_ptr<Segment> segment_;
  std::optional<Snapshot> snapshot_;  // none: the segment starts from a checkpoint, or afresh
  bool is_shown_ = false;
};

TrainReport train_in(Run& run, const Meeting& first, Rendezvous& rendezvous) {
  run.resolve();
  Group& group = first.world->all();
  const std::vector<Layout> layouts = layouts_of(run, group);
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
  for (const RunPhase& phase : run.phases)
    agree(group, data_facts(phase.data.identity),
          "all ranks train on the same tokenizer and texts: copy them to all hosts");
  std::vector<MemoryPlan> plans = plan_phases(run, layouts, group);
  run.open(*first.world);
  if (run.state.step >= run.last_step()) {
    run.keeper.settle(run.config.checkpoint.keep, *run.recorder);
    return run.keeper.idle_report(run.state, run.last_step(), group.size(), *run.recorder);
  }
  run.bind_thread();
  run.report.planned_bytes = static_cast<int64_t>(most_bytes(plans));
  if (run.state.step > 0 && run.io.env.exists(run.folder.file("report.json")))
    run.report.restore(run.io.env.read_text(run.folder.file("report.json")));
  run.keeper.begin();
  run.write_report("running");
  group.barrier("memory");  // all ranks measure the free memory before any rank allocates
  const Segment::End end = Segments(run, rendezvous, first, std::move(plans)).train();
  run.keeper.settle(run.config.checkpoint.keep, *run.recorder);
  if (run.saved_step == run.state.step && group.rank() == 0)
    run.report.digest = Checkpoint::open(run.io.env, run.keeper.checkpoint()).digest();
  run.write_report(end == Segment::End::interrupted ? "interrupted" : "finished");
  run.recorder->finish(run.report, run.ending());
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
  OneWorld rendezvous(world);
  return train(config, rendezvous, io);
}

TrainReport train(const Config& config, Rendezvous& rendezvous, const TrainIo& io) {
  const std::optional<Meeting> first = rendezvous.next("the start");
  check(first.has_value(), "train: the rendezvous gave no world");
  std::string note;
  const Config agreed = agree_on_settings(config, first->world->all(), io.highest_isa, &note);
  if (!note.empty() && io.console != nullptr) io.console->message(note);
  Run run(agreed, *first->world, io);
  try {
    return train_in(run, *first, rendezvous);
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
