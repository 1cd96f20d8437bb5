#include "athanor/run/segment_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/interrupted.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/comm/call_mismatch.h"
#include "athanor/config/print.h"
#include "athanor/layout/elastic.h"
#include "athanor/layout/same_work.h"
#include "athanor/run/agreement.h"
#include "athanor/run/doing.h"
#include "athanor/run/header.h"
#include "athanor/run/plans.h"

namespace athanor::run {

SegmentChain::SegmentChain(const Config& config, Rendezvous& rendezvous, const TrainIo& io)
    : config_(config), rendezvous_(rendezvous), io_(io) {}

TrainReport SegmentChain::train() {
  if (!meet("the start")) throw Recoverable("train: the rendezvous gave no world");
  for (;;) {
    try {
      if (!is_assembled_)
        if (auto report = assemble()) return std::move(*report);
      begin();
      const Segment::End end = segment_->train();
      if (end == Segment::End::back) {
        back_to_ = segment_->back_to();
        run_->went_back_at = now_seconds();
      }
      segment_->engine().role->settle();
      if (end == Segment::End::back) {
        go_back();
        continue;
      }
      if (end == Segment::End::settings) {
        run_->tuning.ended_at = run_->io.clock();
        change_settings();
        continue;
      }
      if (end != Segment::End::phase) return finish(end);
      kept_ = Kept{.part = part_, .head = {}, .snapshot = segment_->snapshot(), .in_place = {}};
      kept_->head = kept_->snapshot.head();
      segment_.reset();
      part_.reset();
    } catch (const IoError&) {
      throw;  // of this rank's own files: another world has the same
    } catch (const Recoverable& failure) {
      if (!meet(failure.what())) throw;
    } catch (const CallMismatch& failure) {  // what was damaged once may be right the next time
      if (!meet(failure.what())) throw;
    }
  }
}

bool SegmentChain::meet(const std::string& why) {
  is_assembled_ = false;
  if (meeting_) meeting_->world->abort(why);  // nobody waits for this rank
  std::optional<Meeting> next = rendezvous_.next(why);
  if (!next) return false;
  // What a world gave that broke before its ranks agreed: whoever holds it has given it once.
  if (meeting_)
    next->left_slots_fds.insert(next->left_slots_fds.begin(), meeting_->left_slots_fds.begin(),
                                meeting_->left_slots_fds.end());
  meeting_ = std::move(next);
  if (io_.in_front) meeting_->world = fronts_.emplace_back(io_.in_front(*meeting_->world)).get();
  num_again_ = 0;
  if (run_) run_->meet(*meeting_);
  return true;
}

std::optional<TrainReport> SegmentChain::assemble() {
  Group& group = meeting_->world->all();
  agree_on_run();
  Run& run = *run_;
  run.forget_decided_settings();  // ranks that have just joined do not know of decisions: begin() follows them
  const std::vector<Layout> layouts = layouts_of(run, group);
  try {
    if (!run.samples) run.open_data();
  } catch (const Interrupted&) {  // is_asked_to_stop() tells the other ranks
  }
  share_going_back();
  const bool goes_back = run.keeper.can_go_back(group, meeting_->rollback_step);
  std::optional<int64_t> back_to = back_to_;
  if (goes_back) {
    forget_state();
    back_to = std::min(back_to.value_or(meeting_->rollback_step), meeting_->rollback_step);
  }
  const bool has_state = !goes_back && has_common_state(layouts);
  if (is_asked_to_stop(run.io, group) && !has_state) {
    run.report.status = "interrupted";
    if (run.io.console != nullptr)
      run.io.console->message("interrupted before the first step: the same command starts again");
    return run.report;
  }
  for (const RunPhase& phase : run.phases)
    agree(group, data_facts(phase.data.identity),
          "all ranks train on the same tokenizer and texts: copy them to all hosts");
  std::optional<int> slots_there;
  if (kept_ && kept_->in_place)
    slots_there = num_slots_in({kept_->in_place->memory.get(), kept_->in_place->size_bytes});
  plans_ = plan_phases(run, layouts, group, slots_there);
  if (goes_back) run.forget_settings_after(*back_to);
  run.open(has_state, back_to);
  note_layout();
  if (!meeting_->set.empty()) set_as_asked();
  if (!has_state && run.state.step >= run.last_step()) {
    run.keeper.settle(run.config.checkpoint.keep, *run.recorder);
    return run.keeper.idle_report(run.state, run.last_step(), group.size(), *run.recorder);
  }
  if (!run.bound) run.bind_thread();
  run.report.planned_bytes = static_cast<int64_t>(most_bytes(plans_));
  if (!is_shown_ && run.state.step > 0 && run.io.env.exists(run.folder.file(run.keeper.last_report())))
    run.report.restore(run.io.env.read_text(run.folder.file(run.keeper.last_report())));
  run.keeper.begin();
  run.write_report("running");
  group.barrier("memory");  // all ranks measure the free memory before any rank allocates
  is_assembled_ = true;
  return std::nullopt;
}

// A rank that was there before has a run, and agrees on its settings with those that join.
void SegmentChain::agree_on_run() {
  std::string note;
  const Config agreed = agree_on_settings(config_, meeting_->world->all(), io_.highest_isa, &note);
  if (!run_) {
    if (!note.empty() && io_.console != nullptr) io_.console->message(note);
    run_.emplace(agreed, *meeting_, io_);
    run_->committed = [this](int64_t step) { rendezvous_.committed(step); };
    run_->happened = [this](const RunEvent& event) { rendezvous_.happened(event); };
    run_->does = [this](control::ProgressKind kind) { rendezvous_.does(kind); };
    run_->progressed = [this] { rendezvous_.progressed(); };
    run_->slot_saves.persist = [this](const control::Persist& what, const std::vector<TextFile>& files) {
      rendezvous_.persist(what, files);
    };
    run_->slot_saves.persisted = [this](bool wait) { return rendezvous_.persisted(wait); };
    run_->told_saved = [this](int64_t step, const std::string& path, const std::string& error) {
      rendezvous_.saved(step, path, error);
    };
    run_->resolve();
  }
  check(agreed.train.isa == run_->config.train.isa,
        "train.isa: got '{}' in generation {}, expected '{}' as before", agreed.train.isa,
        meeting_->generation(), run_->config.train.isa);
  for (const int fd : meeting_->left_slots_fds) {
    const LeftSlots& left = left_.emplace_back(fd, run_identity(run_->folder));
    for (const std::string& why : left.refused())
      if (io_.console != nullptr) io_.console->warning("the snapshot of a lost rank is refused: " + why);
  }
  meeting_->left_slots_fds.clear();
}

std::vector<HeldPart> SegmentChain::held() const {
  std::vector<HeldPart> held;
  if (part_) held = segment_->held();
  if (kept_ && kept_->part) held.push_back({*kept_->part, {kept_->head.step}});
  for (const LeftSlots& left : left_)
    for (HeldPart& part : left.held()) held.push_back(std::move(part));
  if (back_to_) {
    for (HeldPart& part : held) std::erase_if(part.steps, [&](int64_t step) { return step > *back_to_; });
    std::erase_if(held, [](const HeldPart& part) { return part.steps.empty(); });
  }
  if (meeting_->world->rank() != 0) return held;
  // A step whose metrics are not in the file is run again, if the one before is still there.
  const int64_t recorded = run_->recorded_step();
  std::vector<HeldPart> in_file = held;
  bool has_steps = false;
  for (HeldPart& part : in_file) {
    std::erase_if(part.steps, [&](int64_t step) { return step > recorded; });
    has_steps = has_steps || !part.steps.empty();
  }
  return has_steps ? in_file : held;
}

bool SegmentChain::has_common_state(const std::vector<Layout>& layouts) {
  Group& group = meeting_->world->all();
  const auto common = common_step(group, held());
  if (common) {
    std::optional<SlotsInPlace> slots = own_slots(*common, layouts);
    double without = slots ? 0.0 : 1.0;
    group.all_reduce(&without, 1, Dtype::f64, "slots in place").wait();
    if (without == 0.0) {
      const SlotReader reader = SlotReader::trusted({slots->memory.get(), slots->size_bytes}, slots->slot);
      kept_ = Kept{.part = StatePart{common->generation, group.rank(), group.size()},
                   .head = {common->step, reader.state()},
                   .snapshot = {},
                   .in_place = std::move(slots)};
    } else {
      keep_copy(*common);
    }
    segment_.reset();
    part_.reset();
  } else {
    forget_state();
    return false;
  }
  run_->state = TrainState::from_json(common_head(group, kept_->head).state);
  return true;
}

// What was kept for a world that broke before it began may be of another step than the ranks now have in common.
bool SegmentChain::keeps(const CommonStep& common) const {
  return kept_ && kept_->part && kept_->part->generation == common.generation &&
         kept_->head.step == common.step;
}

// Of this rank's part, in a world of the same size, for the layout that it had; none: the state has to be copied.
std::optional<SlotsInPlace> SegmentChain::own_slots(const CommonStep& common,
                                                    const std::vector<Layout>& layouts) const {
  const World& world = *meeting_->world;
  std::optional<SlotsInPlace> own;
  if (segment_ != nullptr && part_ && part_->size == world.size()) own = segment_->slots_of(common);
  if (!own && keeps(common) && kept_->in_place && kept_->part->size == world.size()) own = kept_->in_place;
  for (const LeftSlots& left : left_) {
    const SlotReader* slot = left.of(common);
    if (own || slot == nullptr || slot->identity().rank != world.rank() ||
        slot->identity().size != world.size())
      continue;
    own = SlotsInPlace{left.memory(), left.size_bytes(), slot->slot(), slot->identity().layout};
  }
  const RunPhase& phase = run_->phase_of(common.step + 1);
  const Layout& layout = layouts[static_cast<size_t>(&phase - run_->phases.data())];
  if (!own || own->layout != identity_of(layout)) return std::nullopt;
  return own;
}

void SegmentChain::forget_state() {
  kept_.reset();
  segment_.reset();
  part_.reset();
}

void SegmentChain::keep_copy(const CommonStep& common) {
  Arena& arena = run_->snapshot_arena();
  const auto has = [&](const std::vector<HeldPart>& held) {
    return std::any_of(held.begin(), held.end(), [&](const HeldPart& part) {
      return part.part.generation == common.generation && part.steps.front() == common.step;
    });
  };
  if (part_ && has(segment_->held())) {
    StatePart part = *part_;
    part.generation = common.generation;
    kept_ = Kept{.part = part, .head = {}, .snapshot = segment_->go_back_to(common.step), .in_place = {}};
  } else if (!keeps(common)) {
    kept_ = Kept{};
  } else if (kept_->in_place) {
    const SlotReader reader = kept_->in_place->reader();
    kept_->snapshot.add(reader, arena);
    kept_->in_place.reset();
  }
  for (const LeftSlots& left : left_)
    if (const SlotReader* slot = left.of(common)) kept_->snapshot.add(*slot, arena);
  kept_->head = kept_->snapshot.head();
}

void SegmentChain::begin() {
  Run& run = *run_;
  follow_settings();
  const RunPhase& phase = run.phase();
  const MemoryPlan& plan = plan_of(phase);
  const bool is_first = &phase == &run.phases.front() && num_again_ == 0;
  segment_ =
      std::make_unique<Segment>(run, *meeting_->world, phase, plan,
                                is_first          ? ""
                                : num_again_ == 0 ? phase.text()
                                                  : fmt::format("{} again {}", phase.text(), num_again_));
  const SlotsInPlace* in_place = kept_ && kept_->in_place ? &*kept_->in_place : nullptr;
  const bool is_in_place = in_place != nullptr;
  segment_->build(kept_ && !is_in_place ? &kept_->snapshot : nullptr, in_place);
  order_of_sums_ = layout::order_of_sums(plan.layout);
  part_ = StatePart{meeting_->generation(), meeting_->world->rank(), meeting_->world->size()};
  meeting_->world->all().barrier(
      "a segment begins");  // from here on all ranks have its values, and nobody needs others
  kept_.reset();
  left_.clear();
  back_to_.reset();
  rendezvous_.begun(run.state.step, run.folder.path, is_in_place,
                    layout::same_work(plan.layout, phase.config.train, meeting_->world->rank()));
  const bool is_new_world = run.generation != run.next_generation();
  if (!is_shown_) {
    run.report.params = segment_->engine().model->num_params();
    show_header(plan);
    run.say_doubts();
  }
  if (!run.went_back_because.empty()) run.tell_went_back(run.went_back_because);
  run.begin(print_config(run.config));
  run.keeper.trains();
  const std::string why = run.went_back_because.empty() ? meeting_->why : run.went_back_because;
  run.went_back_because.clear();
  if (is_shown_ && is_new_world)
    run.recorder->message(
        fmt::format("step {}: goes on in generation {}: {}", run.state.step + 1, run.generation, why));
  else if (is_shown_ && run.state.step + 1 == phase.first_step)
    run.recorder->message(
        fmt::format("step {}: {} begins, {} tokens a step, layout {}", run.state.step + 1, phase.text(),
                    phase.config.train.global_batch_size * phase.config.data.seq_len, plan.layout.text()));
  is_shown_ = true;
  if (const double ended_at = std::exchange(run.tuning.ended_at, -1.0); ended_at >= 0.0)
    run.tuning.switch_seconds = run.io.clock() - ended_at;
  segment_->evaluate_first();
  if (is_new_world) run.write_report("running");
}

void SegmentChain::show_header(const MemoryPlan& plan) {
  Run& run = *run_;
  const RunPhase& phase = run.phase();
  Rows rows = header_rows(phase.config, segment_->engine(), phase.data.channels, plan, *run.queue,
                          run.io.placement, run.state.step, phase.first_step, run.folder.path);
  if (!phase.name.empty()) {
    std::string names;
    for (const RunPhase& each : run.phases)
      names += fmt::format("{}{}: {} to {}", names.empty() ? "" : ", ", each.name, each.first_step,
                           each.last_step);
    rows.emplace_back("phases", names);
  }
  run.recorder->header("athanor · " + run.config.train.name, rows);
}

TrainReport SegmentChain::finish(Segment::End end) {
  Run& run = *run_;
  const Doing closing(run, control::ProgressKind::closing);
  run.keeper.settle(run.config.checkpoint.keep, *run.recorder);
  if (run.saved_step == run.state.step && meeting_->world->rank() == 0)
    run.report.digest = Checkpoint::open(run.io.env, run.keeper.checkpoint()).digest();
  const char* const status = end == Segment::End::interrupted ? "interrupted" : "finished";
  if (run.events && run.events->is_lone()) run.tell({.event = "end", .cause = status});
  run.write_report(status);
  run.recorder->finish(run.report, run.ending());
  return run.report;
}

}  // namespace athanor::run
