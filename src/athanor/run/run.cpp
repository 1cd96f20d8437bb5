#include "athanor/run/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/checkpoint/rank_lists.h"
#include "athanor/config/load.h"
#include "athanor/config/presets.h"
#include "athanor/config/validate.h"
#include "athanor/engine/device.h"
#include "athanor/engine/setup.h"
#include "athanor/kernels/table.h"
#include "athanor/observe/metrics_history.h"
#include "athanor/run/agreement.h"
#include "athanor/run/doubtful_data.h"

namespace athanor::run {

Run::Run(const Config& agreed, const Meeting& meeting, const TrainIo& train_io)
    : config(agreed),
      io(train_io),
      world(meeting.world),
      slots_fd(-1),
      folder(config),
      keeper(io.env, folder, world->rank() == 0, io.is_launched),
      threads(threads_of_rank(config, io.ranks_of_processors)),
      pool(threads, [this](int thread) { bind_this_thread(io.placement.thread(thread)); }),
      queue(open_device(config, world->size(), io.cuda_plugin, &pool,
                        io.rank_of_host >= 0 ? io.rank_of_host : world->rank() % io.ranks_of_host)),
      arena(*queue, 0, [this](size_t bytes) { return world->allocate(bytes); }),
      saves(config.checkpoint.every_steps, config.train.steps),
      guards(config.guard) {
  report.run_folder = folder.path;
  meet(meeting);
}

void Run::meet(const Meeting& meeting) {
  check(meeting.world->rank() == world->rank(), "run: got rank {} in the next world, expected {} as before",
        meeting.world->rank(), world->rank());
  world = meeting.world;
  slots_fd = meeting.slots_fd >= 0 ? meeting.slots_fd : io.snapshot_fd;
  if (meeting.is_on_one_host) {
    io.ranks_of_host = world->size();
    io.rank_of_host = world->rank();
  }
  slot_saves.are_possible = meeting.holder_saves;
  slot_saves.handed_step = -1;
  saves_first = meeting.saves_first;
  report.ranks = world->size();
}

void Run::resolve() {
  tokenizer_ = open_tokenizer(config, io.env);
  resolve_model(config, tokenizer_ == nullptr ? 0 : tokenizer_->vocab_size());
  validate(config);
  for (PhaseConfig& phase : phases_of(config)) {
    phase.config.train.steps = phase.last_step;
    phases.push_back({.name = phase.name,
                      .first_step = phase.first_step,
                      .last_step = phase.last_step,
                      .config = std::move(phase.config)});
  }
  if (!io.phase.empty() || !io.from.empty()) keep_one_phase();
  saves = SaveSchedule(config.checkpoint.every_steps, last_step());
  said = config;
  for (RunPhase& phase : phases) phase.said = phase.config;
}

void Run::keep_one_phase() {
  const auto found = std::find_if(phases.begin(), phases.end(),
                                  [this](const RunPhase& phase) { return phase.name == io.phase; });
  if (found == phases.end()) {
    std::vector<std::string> names;
    for (const RunPhase& phase : phases) names.push_back("'" + phase.name + "'");
    throw ConfigError(fmt::format("--phase: got '{}', expected {}", io.phase,
                                  config.phases.empty() ? "none: the config has no [[phase]]"
                                                        : fmt::format("one of {}", fmt::join(names, ", "))));
  }
  RunPhase phase = std::move(*found);
  int64_t begins_at = phase.first_step;
  if (!io.from.empty()) {
    const auto newest = newest_checkpoint(io.env, io.from, nullptr);
    if (!newest)
      throw ConfigError(
          fmt::format("--from: got '{}', expected a checkpoint, or a run that has one", io.from));
    from_ = *newest;
    const Checkpoint checkpoint = Checkpoint::open(io.env, from_);
    check_continues(parse_config(checkpoint.file_text("config.resolved.toml"), from_), config, io.from);
    begins_at = checkpoint.step() + 1;
  } else if (begins_at > 1) {
    throw ConfigError(
        fmt::format("--phase: got '{}' without --from, which begins after step {}; expected the "
                    "checkpoint that it goes on from",
                    phase.name, phase.first_step - 1));
  }
  const int64_t moved = begins_at - phase.first_step;
  phase.first_step += moved;
  phase.last_step += moved;
  phase.config.train.steps = phase.last_step;
  phase.config.schedule.first_step += moved;
  phases.clear();
  phases.push_back(std::move(phase));
}

void Run::open_data() {
  const auto tell = [this](const TokenizeState& tokenizing) {
    does(tokenizing.finished ? control::ProgressKind::other : control::ProgressKind::tokenizing);
    if (!tokenizing.finished && !tokenizing.waiting) progressed();
    if (io.tokenizing) io.tokenizing(tokenizing);
  };
  for (RunPhase& phase : phases)
    phase.data = open_dataset(phase.config, io.env,
                              {.threads = threads,
                               .vocab_size = phase.config.model.vocab_size,
                               .steps = phase.last_step - phase.first_step + 1,
                               .tokenizer = tokenizer_,
                               .progress = tell,
                               .stop = io.stop,
                               .reads_streams = true,
                               .standard_input = io.standard_input});
  does(doing);
  samples.emplace(config, phases.front().data.tokenizer);
}

std::string RunPhase::text() const {
  return name.empty() ? "the run" : "phase '" + name + "'";
}

const RunPhase& Run::phase_of(int64_t step) const {
  for (const RunPhase& phase : phases)
    if (step <= phase.last_step) return phase;
  return phases.back();
}

std::string Run::start_checkpoint() const {
  return keeper.checkpoint().empty() ? from_ : keeper.checkpoint();
}

Arena& Run::snapshot_arena() {
  if (queue->device() != Device::cuda) return arena;
  if (host_arena_ == nullptr) {
    host_queue_ =
        make_cpu_queue(&pool, config.train.isa == "auto" ? best_isa() : parse_isa(config.train.isa));
    host_arena_ = std::make_unique<Arena>(*host_queue_);
  }
  return *host_arena_;
}

Ending Run::ending() const {
  Ending ending = ending_of(report, config.train.name, state.step, last_step(), saved_step);
  ending.continues_text = !config.model.is_encoder();
  return ending;
}

void Run::bind_thread() {
  bound.emplace(io.placement.thread(0));
  if (bound->refusal().empty()) return;
  recorder->warning(bound->refusal());
  io.placement = {.processors = {}, .of_thread = {}, .reason = "not bound: the system refuses"};
}

void Run::open(bool has_state, std::optional<int64_t> back_to) {
  keeper.take(world->all());
  world->all().barrier("run folder");
  const bool has_joined = !recorder.has_value();
  if (has_joined) open_recorder();
  if (back_to) forget_checkpoints_after(*back_to);
  if (!has_state)
    find_state();
  else if (has_joined)
    report.resumed_step = state.step;
  share_guards();
  plan_decisions();
  count_generations();
  share_knowledge(has_state);
}

void Run::open_recorder() {
  recorder.emplace(io.env, folder.path, world->rank(), io.console, io.command_line);
  recorder->name_report(io.is_launched ? kRunReportName : kReportName);
  if (world->rank() == 0)
    events.emplace(io.env,
                   io.is_launched ? RunEvents::Tell([this](const RunEvent& event) { happened(event); })
                                  : RunEvents::Tell(),
                   [this](const std::string& why) { recorder->warning(why); });
  if (tokenizer_ != nullptr)
    for (const std::string& warning : tokenizer_->warnings()) recorder->warning(warning);
  std::set<std::string> once;
  for (const RunPhase& phase : phases) {
    for (const Dataset::Omission& omission : phase.data.left_out)
      if (once.insert(omission.channel + "/" + omission.what.file).second)
        report.left_out.push_back(omission);
    for (const std::string& remark : phase.data.remarks)
      if (once.insert(remark).second) recorder->warning(remark);
  }
}

void Run::find_state() {
  state = first_state(config);
  saved_step = -1;
  const auto resumed = keeper.find_state(
      world->all(), said, [this](int64_t step) { return phase_of(std::max<int64_t>(step, 1)).data.identity; },
      *recorder);
  if (resumed) {
    state = *resumed;
    saved_step = state.step;
  } else if (!from_.empty()) {
    agree_on_weights(io.env, world->all(), from_);
    state = TrainState::from_json(Checkpoint::open(io.env, from_).state());
    recorder->message(fmt::format("{} goes on from {}", phase().text(), from_));
  }
  if (!resumed && from_.empty()) return;
  state.loss_scale.window = config.precision.loss_scale_window;
  report.resumed_step = state.step;
}

void Run::plan_decisions() {
  std::string given;
  if (io.decisions)
    for (const Decision& decision : *io.decisions) given += decision_line(decision) + ' ';
  agree(world->all(), {{"--decisions", io.decisions ? given : "none"}},
        "all ranks follow the same decisions");
  decisions =
      continue_decisions(state.decisions, guards.decisions ? guards.decisions : io.decisions, state.step);
  if (keeper.layout_change()) {
    const auto next = std::find_if(decisions.begin(), decisions.end(),
                                   [this](const Decision& decision) { return decision.step > state.step; });
    decisions.insert(next, {.step = state.step + 1,
                            .what = *keeper.layout_change(),
                            .why = "the run was resumed with another layout"});
  }
}

// Whoever was there before has seen the course of training.
void Run::share_guards() {
  guards.forget_after(state.step);
  const std::vector<std::string> texts =
      gather_texts(world->all(), fmt::format("{} {}", guards.num_values(), guards.text()), "guards");
  int64_t most = 0;
  const std::string* best = nullptr;
  for (const std::string& text : texts)
    if (const int64_t count = std::stoll(text); count > most) {
      most = count;
      best = &text;
    }
  if (best != nullptr) guards.take(best->substr(best->find(' ') + 1));
  if (guards.decisions && !is_past_of(state.decisions, *guards.decisions, state.step))
    guards.decisions.reset();
}

void Run::forget_checkpoints_after(int64_t step) {
  settle_saved();
  wait_for_writer();
  keeper.go_back_after(world->all(), step, *recorder);
  if (saved_step > step)
    saved_step = keeper.checkpoint().empty() ? -1 : Checkpoint::open(io.env, keeper.checkpoint()).step();
}

void Run::go_back(int64_t step) {
  forget_checkpoints_after(step);
  ++first_generation_;
}

// Whoever was there before knows; else rank 0 has written the lines that are there.
void Run::count_generations() {
  std::vector<int64_t> known(static_cast<size_t>(world->size()));
  world->all().all_gather(&first_generation_, known.data(), 1, Dtype::i64, "generation").wait();
  first_generation_ = *std::max_element(known.begin(), known.end());
  if (first_generation_ >= 0) return;
  if (world->rank() == 0)
    first_generation_ =
        std::max<int64_t>(0, last_generation(io.env, folder.file("metrics.jsonl")) + 1 - world->generation());
  world->all().broadcast(&first_generation_, 1, Dtype::i64, 0, "generation").wait();
}

// On these depends what is collective later.
void Run::share_knowledge(bool has_state) {
  const auto ranks = static_cast<size_t>(world->size());
  std::vector<double> peaks(ranks);
  world->all().all_gather(&peak_flops, peaks.data(), 1, Dtype::f64, "peak").wait();
  peak_flops = *std::max_element(peaks.begin(), peaks.end());
  saves = SaveSchedule(config.checkpoint.every_steps, last_step());
  may_owe_save = has_state && state.step > 0;
  if (!has_state) return;
  std::vector<int64_t> saved(ranks);
  world->all().all_gather(&saved_step, saved.data(), 1, Dtype::i64, "saved step").wait();
  const int64_t newest = *std::max_element(saved.begin(), saved.end());
  if (newest > saved_step) keeper.was_saved(newest);
  saved_step = newest;
}

int64_t Run::recorded_step() const {
  if (recorder && generation >= 0) return recorder->last_step();  // before, it has not opened its files
  const std::string path = folder.file("metrics.jsonl");
  if (!io.env.exists(path)) return -1;
  return sort_history(io.env.read_text(path), std::numeric_limits<int64_t>::max()).last_step;
}

void Run::begin(const std::string& resolved_config) {
  const bool is_first = generation < 0;
  if (!is_first && resolved_config != resolved_config_)
    recorder->write("config.resolved.toml", resolved_config);
  resolved_config_ = resolved_config;
  if (generation == next_generation()) return;
  generation = next_generation();
  num_told_ = state.decisions.size();
  if (is_first)
    recorder->open(state.step, resolved_config);
  else
    recorder->cut_back(state.step);
  if (world->rank() != 0) return;
  if (is_first) events->begin(folder.path, state.step, generation);
  recorder->sync();  // what is written in the background
  decision_log_.emplace(io.env, folder, state.decisions);
  if (const int64_t count = decision_log_->num_abandoned(); count > 0)
    recorder->message(fmt::format("{} of steps after {} set aside in decisions.abandoned.jsonl",
                                  count == 1 ? "a decision" : fmt::format("{} decisions", count),
                                  state.step));
}

void Run::tell_decisions() {
  state.follow(decisions);  // on a server: where a rank trains, its step has committed with them
  const bool is_new = num_told_ < state.decisions.size();
  for (; num_told_ < state.decisions.size(); ++num_told_) {
    const Decision& decision = state.decisions[num_told_];
    recorder->message(fmt::format("step {}: {}", decision.step, text_of(decision)));
    if (decision_log_) decision_log_->add(decision, generation);
  }
  if (is_new && decision_log_) recorder->write(kDecisionsName, decision_log_->text());
}

void Run::tell(RunEvent event) {
  if (!events) return;
  if (event.step < 0) event.step = state.step;
  if (event.generation < 0) event.generation = generation;
  events->tell(event);
}

void Run::report_incidents() {
  if (!events || !events->is_lone()) return;
  report.incidents = events->incidents();
  report.goodput = events->goodput();
}

void Run::tell_went_back(const std::string& why) {
  const int64_t undone = recorder ? recorder->last_step() - state.step : 0;
  tell({.event = "guard",
        .cause = why,
        .recover_seconds = now_seconds() - went_back_at,
        .lost_steps = std::max<int64_t>(undone, 0)});
}

void Run::write_report(const char* status) {
  report.status = status;
  report.steps = state.step;
  report.tokens = state.tokens;
  report.decisions = state.decisions;
  if (flops_per_token > 0.0) report.set_rates(rates, flops_per_token, peak_flops);
  report.seconds = process_age_seconds();
  report.peak_bytes = static_cast<int64_t>(arena.usage().peak_total);
  report.set_resident_bytes();
  report.set_writer();
  report.dropped = recorder->dropped();
  report_incidents();
  recorder->report(report);
}

void Run::renew_report(double tokens_per_second) {
  report.steps = state.step;
  report.tokens = state.tokens;
  report.decisions = state.decisions;
  report.tokens_per_second = tokens_per_second;
  report_incidents();
  keeper.renew(report, *recorder);
}

void Run::write_trace(int rank) {
  if (io.trace == nullptr || io.trace->stopped()) return;
  recorder->write(fmt::format("trace/rank{}.json", rank), io.trace->chrome_json(rank));
  io.trace->stop();
}

void Run::say_doubts() {
  if (state.step >= last_step()) return;
  for (const std::string& line : config.warnings) recorder->warning(line);
  for (const RunPhase& phase : phases) {
    Config alone = phase.config;
    alone.train.steps = phase.last_step - phase.first_step + 1;
    for (const std::string& line : doubtful_data(alone, phase.data))
      recorder->warning(phase.name.empty() ? line : phase.text() + ": " + line);
  }
}

void Run::failed(const std::string& reason) noexcept {
  try {
    if (events && events->is_lone() && generation >= 0) {
      tell({.event = "end", .cause = reason});
      report_incidents();
    }
  } catch (...) {  // the error that ended the run is the one worth reporting
  }
  keeper.failed(reason, report, recorder);
  if (!recorder || report.params == 0) return;  // the header was not shown yet: the error itself is enough
  report.status = "failed";
  recorder->fail(ending());
}

}  // namespace athanor::run
