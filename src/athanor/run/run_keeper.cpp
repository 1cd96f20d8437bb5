#include "athanor/run/run_keeper.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/clock.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/config/load.h"
#include "athanor/run/agreement.h"
#include "athanor/run/resume_changes.h"

namespace athanor::run {
namespace {

constexpr double kRenewSeconds = 1.0;

// What a writer that died in the middle of replacing one of the run's small files left beside it.
void remove_leftovers(Env& env, const RunFolder& folder, const char* report) {
  for (const char* name : {"committed.json", "config.resolved.toml", "decisions.jsonl", "env.json",
                           "loss.svg", "metrics.jsonl", "profile.json", report})
    if (const std::string leftover = folder.file(std::string(name) + ".tmp"); env.exists(leftover))
      env.remove_all(leftover);
}

}  // namespace

void RunKeeper::take(Group& group) {
  const bool has_it = lock_.has_value();
  if (is_first_ && !has_it) {
    check_run_format(env_, folder_.path);
    is_new_ = !env_.exists(folder_.path);
    env_.create_folders(folder_.path);
    lock_.emplace(lock_run(folder_.path));
  }
  agree_on_folder(env_, group, folder_.path);
  // What a writer that died left behind, and what it had moved away, is put right before anyone looks.
  if (!is_first_ || has_it) return;
  stuck_ = rotate_checkpoints(env_, folder_.checkpoints(), /*keep=*/0);
  remove_leftovers(env_, folder_, is_launched_ ? kRunReportName : kReportName);
}

bool RunKeeper::can_go_back(Group& group, int64_t step) const {
  if (step < 0) return false;
  int64_t is_there =
      is_first_ && env_.exists(join_path(folder_.checkpoints(), checkpoint_name(step))) ? 1 : 0;
  group.broadcast(&is_there, 1, Dtype::i64, 0, "checkpoint to go back to").wait();
  return is_there != 0;
}

// So that no later start takes them for the newest of the run.
void RunKeeper::set_aside_after(int64_t step) {
  if (!is_first_) return;
  const std::string away = folder_.file("abandoned");
  const std::string last = checkpoint_name(step);
  for (const std::string& path : list_checkpoints(env_, folder_.checkpoints())) {
    const std::string name = path.substr(path.find_last_of('/') + 1);
    if (std::pair(name.size(), name) <= std::pair(last.size(), last)) continue;
    env_.create_folders(away);
    const std::string to = join_path(away, name);
    if (env_.exists(to)) env_.remove_all(to);
    env_.rename(path, to);
    env_.sync_folder(folder_.checkpoints());
  }
}

void RunKeeper::tell(const std::vector<std::string>& stuck, Recorder& recorder) {
  for (const std::string& line : stuck)
    if (told_.insert(line).second) recorder.warning(line);
}

std::optional<TrainState> RunKeeper::find_state(Group& group, const Config& config,
                                                const std::function<std::string(int64_t step)>& data_identity,
                                                Recorder& recorder) {
  tell(stuck_, recorder);
  std::vector<std::string> skipped;
  const auto newest = agree_on_checkpoint(env_, group, folder_.checkpoints(), &skipped);
  for (const std::string& line : skipped) recorder.warning(line);
  std::optional<TrainState> found;
  if (!newest) {
    check_may_begin(env_, folder_, skipped);
  } else {
    const Checkpoint checkpoint = Checkpoint::open(env_, *newest);
    const Config then = parse_config(checkpoint.file_text("config.resolved.toml"), *newest);
    found = TrainState::from_json(checkpoint.state());
    check_resumable(then, config, found->step, found->data_identity, data_identity(found->step));
    for (const std::string& line : resume_changes(then, config, found->step)) recorder.message(line);
    layout_change_ = athanor::run::layout_change(then, config, found->step);
    checkpoint_ = *newest;
    record(found->step);
  }
  // Asked by the only rank that writes the report: another one might find that of this start.
  const auto before = is_first_ && !is_begun_
                          ? run_status(env_, folder_.path, /*holds_lock=*/true, last_report())
                          : std::nullopt;
  if (before && before->status == "dead")
    recorder.message(
        fmt::format("the process that trained this run before (process {} on {}) died at step {}",
                    before->pid, before->host, before->steps));
  if (newest) recorder.message("resumed from " + *newest);
  return found;
}

void RunKeeper::go_back_after(Group& group, int64_t step, Recorder& recorder) {
  set_aside_after(step);
  if (is_first_ && list_checkpoints(env_, folder_.checkpoints()).empty()) forget_commits(env_, folder_);
  std::vector<std::string> skipped;
  checkpoint_ = agree_on_checkpoint(env_, group, folder_.checkpoints(), &skipped).value_or("");
  for (const std::string& line : skipped) recorder.warning(line);
  is_unproven_ = true;
}

void RunKeeper::saved(const std::string& path, int64_t step) {
  checkpoint_ = path;
  is_unproven_ = true;
  record(step);
}

// Failures are ignored: the checkpoint is safe without committed.json, and the next save or start tries again.
void RunKeeper::record(int64_t step) {
  if (!is_first_) return;
  try {
    record_commit(env_, folder_, step);
  } catch (const IoError&) {
  }
}

void RunKeeper::confirm(int64_t keep, Recorder& recorder) {
  if (is_unproven_) settle(keep, recorder);
}

void RunKeeper::settle(int64_t keep, Recorder& recorder) {
  is_unproven_ = false;
  if (!is_first_ || checkpoint_.empty()) return;
  try {
    tell(rotate_checkpoints(env_, folder_.checkpoints(), keep, checkpoint_), recorder);
  } catch (const IoError& error) {
    tell({fmt::format("old checkpoints stay: {}", error.what())}, recorder);
  }
}

// What rank 0 of an earlier launch has said is no newer than what this process says.
void RunKeeper::begin() {
  is_begun_ = true;
  if (is_first_ && !is_launched_ && env_.exists(folder_.file(kRunReportName)))
    env_.remove_all(folder_.file(kRunReportName));
}

void RunKeeper::renew(TrainReport& report, Recorder& recorder) {
  const double now = now_seconds();
  if (!is_first_ || now - renewed_at_ < kRenewSeconds) return;
  renewed_at_ = now;
  report.seconds = process_age_seconds();
  report.set_writer();
  recorder.renew(report);
}

void RunKeeper::failed(const std::string& reason, TrainReport& report, std::optional<Recorder>& recorder) {
  if (!lock_) return;
  try {
    if (is_new_) {
      recorder.reset();
      env_.remove_all(folder_.path);
    } else if (is_begun_) {
      report.status = "failed";
      report.reason = reason;
      report.seconds = process_age_seconds();
      report.set_writer();
      recorder->report(report);
      recorder->sync();
    }
  } catch (const std::exception&) {  // the original error is already being reported
  }
}

NotFinite RunKeeper::with_checkpoint(const NotFinite& error) const {
  const std::string last =
      doubted_step_ ? last_finite_checkpoint(env_, folder_.checkpoints(), *doubted_step_) : checkpoint_;
  std::string hint =
      "lower optimizer.lr, warm up for longer (schedule.warmup_steps) or clip more (optimizer.max_grad_norm)";
  if (doubted_step_)
    hint = fmt::format("move {} away to go on from an older one", checkpoint_);
  else if (!last.empty() && is_unproven_)
    hint += fmt::format("; where that does not help, move {} away to go on from the one before", last);
  return NotFinite(last.empty() ? fmt::format("{}; no finite checkpoint had been saved", error.what())
                                : fmt::format("{}; the last finite checkpoint is {}", error.what(), last),
                   hint);
}

TrainReport RunKeeper::idle_report(const TrainState& state, int64_t steps, int ranks, Recorder& recorder) {
  recorder.message(
      state.step > steps
          ? fmt::format(
                "train.steps = {} is fewer than the {} steps that this run has done: nothing to do; its "
                "weights are those of step {}",
                steps, state.step, state.step)
          : fmt::format("step {} is done, train.steps is {}: nothing to do", state.step, steps));
  const std::string path = folder_.file(last_report());
  TrainReport report;
  if (const auto found = env_.exists(path) ? TrainReport::parse(env_.read_text(path)) : std::nullopt) {
    // Of the report that others read a launcher that was killed may have left what it was before.
    const auto shown = is_launched_ ? std::nullopt : run_status(env_, folder_.path, /*holds_lock=*/true);
    const bool is_over = found->status == "finished" || found->status == "interrupted";
    if (is_over && (!shown || shown->status != "dead")) return *found;
    report = *found;  // the previous process died after its last checkpoint
  }
  report.run_folder = folder_.path;
  report.status = "finished";
  report.reason = "";
  report.ranks = std::max<int64_t>(report.ranks, ranks);
  report.steps = state.step;
  report.tokens = state.tokens;
  report.set_writer();
  if (is_first_) report.digest = Checkpoint::open(env_, checkpoint_).digest();
  recorder.report(report);
  recorder.sync();
  return report;
}

}  // namespace athanor::run
