// How a segment saves: the ranks write a checkpoint together and wait for it, or whoever holds their slots does; and what the run
// knows of those.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/checkpoint/checkpoint.h"
#include "athanor/checkpoint/format/staged_folder.h"
#include "athanor/config/print.h"
#include "athanor/run/doing.h"
#include "athanor/run/run.h"
#include "athanor/run/segment.h"

namespace athanor::run {
namespace {

// A rank's slot, when a checkpoint is to be written out of it.
constexpr int64_t kRefused = 0, kPinned = 1, kUnderway = 2;
constexpr double kSilentSeconds = 2.0;  // that a wait may last before it is told

}  // namespace

std::vector<TextFile> Segment::files_beside() const {
  std::vector<TextFile> files = {{"config.resolved.toml", print_config(run_.said)}};
  if (phase_.data.tokenizer != nullptr)
    for (const auto& [name, text] : phase_.data.tokenizer->files()) files.push_back({name, text});
  return files;
}

void Segment::save_due() {
  if (run_.slot_saves.are_possible && slots_ && slots_plan_.num_slots > 2)
    hand_over();
  else
    save(/*is_last=*/false);
}

// What is still being written goes on; a step that comes due meanwhile is not saved.
void Segment::hand_over() {
  const int64_t step = run_.state.step;
  if (run_.saved_step == step || run_.slot_saves.handed_step == step) return;
  const Span span(run_.io.trace, "checkpoint", "step");
  const Doing saving(run_, control::ProgressKind::saving);
  run_.take_saved();
  // After a failure of ranks the very step may be the one that is being written.
  const bool is_underway = slots_->pinned_step() == step, pinned = !is_underway && slots_->pin();
  const int64_t mine[2] = {is_underway ? kUnderway : pinned ? kPinned : kRefused, run_.saved_step};
  std::vector<int64_t> all(2 * static_cast<size_t>(group_.size()));
  group_.all_gather(mine, all.data(), 2, Dtype::i64, "pinned slots").wait();
  bool all_pinned = true, all_underway = true;
  for (size_t rank = 0; rank < all.size() / 2; ++rank) {
    all_pinned = all_pinned && all[2 * rank] == kPinned;
    all_underway = all_underway && all[2 * rank] == kUnderway;
    run_.saved_step = std::max(run_.saved_step, all[2 * rank + 1]);
  }
  if (pinned && (!all_pinned || run_.saved_step == step)) slots_->unpin();
  if (run_.saved_step == step) return;
  if (all_underway) run_.slot_saves.handed_step = step;
  if (all_underway) return;
  if (!all_pinned) {
    run_.recorder->warning(
        fmt::format("step {} is not saved: the checkpoint before it is still being written; the next one is "
                    "saved as it is due",
                    step));
    run_.tell({.event = "checkpoint", .cause = "not saved: the one before it is still being written"});
    return;
  }
  check_state(fmt::format("step {}", step));
  run_.slot_saves.handed_step = step;
  run_.slot_saves.told_step = -1;
  if (group_.rank() == 0)
    run_.slot_saves.persist({.step = step,
                             .path = join_path(run_.folder.checkpoints(), checkpoint_name(step)),
                             .metrics = run_.folder.file("metrics.jsonl")},
                            files_beside());
  run_.progressed();
}

void Segment::save(bool is_last) {
  run_.settle_saved();
  if (run_.saved_step == run_.state.step) return;
  const Span span(run_.io.trace, "checkpoint", "step");
  const Doing saving(run_, control::ProgressKind::saving);
  check_state(fmt::format("step {}", run_.state.step));
  const CheckpointContent content{.step = run_.state.step,
                                  .state = run_.state.to_json(),
                                  .tensors = training_->tensors(),
                                  .files = files_beside()};
  run_.recorder->sync();
  run_.wait_for_writer();
  std::string path;
  try {
    path = write_checkpoint(run_.io.env, group_, run_.folder.checkpoints(), content);
  } catch (const IoError& error) {  // on one rank, so on all of them
    ++run_.report.failed_saves;
    if (!is_last) {
      // With servers the steps that are saved are fixed in advance, so the next retry is the next due save.
      if (run_.saves.failed(run_.state.step, /*may_retry=*/layout_.servers == 0))
        run_.recorder->warning(fmt::format("step {} could not be saved: {}; the run goes on and tries again",
                                           run_.state.step, error.what()));
      if (group_.rank() == 0) run_.told_saved(run_.state.step, "", error.what());
      run_.tell({.event = "checkpoint", .cause = fmt::format("could not be saved: {}", error.what())});
      return;
    }
    throw IoError(fmt::format("step {} could not be saved: {}", run_.state.step, error.what()), error.code(),
                  run_.saved_step > 0 ? fmt::format("the same command goes on from step {}", run_.saved_step)
                                      : error.hint());
  }
  run_.saves.succeeded();
  run_.progressed();
  run_.saved_step = run_.state.step;
  run_.keeper.saved(path, run_.state.step);
  run_.recorder->message("saved " + path);
  if (group_.rank() == 0) run_.told_saved(run_.state.step, path, "");
  run_.tell({.event = "checkpoint"});
}

void Segment::save_first() {
  const int64_t step = run_.state.step;
  if (step > 0 && run_.saved_step != step) return save(/*is_last=*/false);
  if (group_.rank() != 0) return;
  const std::string path = step > 0 ? run_.keeper.checkpoint() : "";
  run_.told_saved(step, path, step > 0 ? "" : "no step is done yet");
}

void Run::take_saved() {
  if (!slot_saves.are_possible || world->rank() != 0) return;
  while (const auto saved = slot_saves.persisted(/*wait=*/false)) tell_saved(*saved);
}

void Run::tell_saved(const control::Persisted& saved) {
  slot_saves.told_step = saved.step;
  if (saved.step > state.step) return;  // of a course that was undone meanwhile
  if (!saved.error.empty()) {
    ++report.failed_saves;
    recorder->warning(fmt::format("step {} could not be saved: {}; the next checkpoint is tried as it is due",
                                  saved.step, saved.error));
    tell({.event = "checkpoint",
          .step = saved.step,
          .cause = fmt::format("could not be saved: {}", saved.error)});
    return;
  }
  saved_step = std::max(saved_step, saved.step);
  keeper.saved(saved.path, saved.step);
  recorder->message("saved " + saved.path);
  tell({.event = "checkpoint", .step = saved.step});
}

void Run::settle_saved() {
  if (slot_saves.handed_step < 0) return;
  while (world->rank() == 0 && slot_saves.told_step != slot_saves.handed_step) {
    const auto saved = slot_saves.persisted(/*wait=*/true);
    if (!saved) break;  // the launcher is gone
    tell_saved(*saved);
  }
  world->all().broadcast(&saved_step, 1, Dtype::i64, 0, "saved step").wait();
  slot_saves.handed_step = -1;
}

void Run::wait_for_writer() {
  if (!slot_saves.are_possible || world->rank() != 0 || !io.env.is_folder(folder.checkpoints())) return;
  const double start = now_seconds(), most = 1e-3 * static_cast<double>(config.launch.timeout_ms);
  for (bool is_told = false; !FolderLock::try_take(folder.checkpoints());) {
    const double waited = now_seconds() - start;
    if (waited > most)
      throw IoError(fmt::format("'{}': another process has been writing in this folder for {:.0f} s",
                                folder.checkpoints(), waited),
                    EWOULDBLOCK);
    if (waited > kSilentSeconds && !std::exchange(is_told, true) && recorder)
      recorder->message("waits for the checkpoint that the launcher is still writing");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace athanor::run
