// Of a SegmentChain: how the next segment comes to differ from the one before it, by settings or by going back.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/checkpoint/rank_lists.h"
#include "athanor/config/load.h"
#include "athanor/control/messages.h"
#include "athanor/layout/elastic.h"
#include "athanor/run/decisions/set_settings.h"
#include "athanor/run/segment_chain.h"
#include "athanor/run/tuning/fit.h"

namespace athanor::run {

MemoryPlan& SegmentChain::plan_of(const RunPhase& phase) {
  return plans_[static_cast<size_t>(&phase - run_->phases.data())];
}

// Slots that wait for the next segment are in no arena.
Fit SegmentChain::fit_of_phase(const Config& config) {
  const uint64_t held_bytes = kept_ && kept_->in_place ? kept_->in_place->size_bytes : 0;
  return fit_of(*run_, plan_of(run_->phase()), config, meeting_->world->all(), held_bytes);
}

// A micro-batch size that another world, or this machine, cannot have is taken back.
void SegmentChain::follow_settings() {
  Run& run = *run_;
  run.follow_settings();
  const RunPhase& phase = run.phase();
  MemoryPlan& plan = plan_of(phase);
  if (phase.config.train.micro_batch_size == plan.request.config.train.micro_batch_size) return;
  Fit fit = fit_of_phase(phase.config);
  if (!fit.why_not.empty()) {
    const int64_t said = phase.said.train.micro_batch_size;
    if (run.io.decisions || phase.config.train.micro_batch_size == said) throw Error(fit.why_not);
    run.recorder->warning(fmt::format("step {}: {}: taken back", run.state.step + 1, fit.why_not));
    run.set_setting(fmt::format("train.micro_batch_size={}", said), fit.why_not);
    return follow_settings();
  }
  plan = std::move(*fit.plan);
  run.report.planned_bytes = std::max(run.report.planned_bytes, static_cast<int64_t>(plan.usage.peak_total));
}

// Ranks that have just joined do not know of the world before.
void SegmentChain::note_layout() {
  Run& run = *run_;
  const std::string now = layout::order_of_sums(plan_of(run.phase()).layout);
  const std::vector<std::string> before =
      gather_texts(meeting_->world->all(), order_of_sums_, "the layout before");
  const auto known =
      std::find_if(before.begin(), before.end(), [](const std::string& text) { return !text.empty(); });
  if (known == before.end() || *known == now) return;
  run.decisions = with_decisions(
      run.decisions, {{.step = run.state.step + 1, .what = LayoutChange{*known, now}, .why = meeting_->why}});
  run.guards.decisions = run.decisions;
  run.recorder->message(fmt::format("step {}: sums are in another order from here on: {} -> {}",
                                    run.state.step + 1, *known, now));
}

// What the operator wants; not where its memory is not there.
void SegmentChain::set_as_asked() {
  Run& run = *run_;
  run.follow_settings();
  Config changed = run.phase().config;
  override_setting(changed, meeting_->set);
  if (changed.train.micro_batch_size != run.phase().config.train.micro_batch_size)
    if (const Fit fit = fit_of_phase(changed); !fit.why_not.empty()) {
      const std::string cause = std::string(control::kNotSet) + fit.why_not;
      run.recorder->warning(fmt::format("step {}: {}", run.state.step + 1, cause));
      run.tell({.event = "set", .cause = cause, .recover_seconds = 0.0});
      return;
    }
  run.set_setting(meeting_->set);
}

// Of the layout changes nothing that the values depend on, so the values stay where they are.
void SegmentChain::change_settings() {
  Run& run = *run_;
  Group& group = meeting_->world->all();
  kept_ = Kept{.part = part_, .head = {run.state.step, run.state.to_json()}, .snapshot = {}, .in_place = {}};
  kept_->in_place = segment_->slots_of({meeting_->generation(), run.state.step});
  double without = kept_->in_place ? 0.0 : 1.0;
  group.all_reduce(&without, 1, Dtype::f64, "slots in place").wait();
  if (without > 0.0) {
    kept_->in_place.reset();
    kept_->snapshot = segment_->snapshot();
  }
  segment_.reset();
  part_.reset();
  ++num_again_;
}

// A rank that was lost on the way back, or has just joined, may not know of it.
void SegmentChain::share_going_back() {
  Group& group = meeting_->world->all();
  constexpr int64_t kNowhere = std::numeric_limits<int64_t>::max();
  const int64_t own = back_to_.value_or(kNowhere);
  std::vector<int64_t> all(static_cast<size_t>(group.size()));
  group.all_gather(&own, all.data(), 1, Dtype::i64, "going back").wait();
  const int64_t first = *std::min_element(all.begin(), all.end());
  if (first != kNowhere) back_to_ = first;
}

// From a snapshot in memory where the ranks have one, else from a checkpoint, else from the start.
void SegmentChain::go_back() {
  Run& run = *run_;
  run.go_back(*back_to_);
  const std::vector<HeldPart> held = this->held();
  kept_.reset();
  if (const auto common = common_step(meeting_->world->all(), held)) {
    kept_ = Kept{.part = part_, .head = {}, .snapshot = segment_->go_back_to(common->step), .in_place = {}};
    kept_->head = kept_->snapshot.head();
  } else {
    run.load_state();
  }
  run.guards.forget_after(run.state.step);
  run.may_owe_save = run.state.step > 0;
  segment_.reset();
  part_.reset();
  ++num_again_;
}

}  // namespace athanor::run
