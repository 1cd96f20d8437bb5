// Of a Run: checkpoints that whoever holds the slots writes out of them, while the ranks train on.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/checkpoint/format/staged_folder.h"
#include "athanor/run/run.h"

namespace athanor::run {
namespace {

constexpr double kSilentSeconds = 2.0;  // that a wait may last before it is told

}  // namespace

void Run::take_saved() {
  if (!holder_saves || world->rank() != 0) return;
  while (const auto saved = persisted(/*wait=*/false)) tell_saved(*saved);
}

void Run::tell_saved(const control::Persisted& saved) {
  told_saved_step = saved.step;
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
  if (handed_step < 0) return;
  while (world->rank() == 0 && told_saved_step != handed_step) {
    const auto saved = persisted(/*wait=*/true);
    if (!saved) break;  // the launcher is gone
    tell_saved(*saved);
  }
  world->all().broadcast(&saved_step, 1, Dtype::i64, 0, "saved step").wait();
  handed_step = -1;
}

void Run::wait_for_writer() {
  if (!holder_saves || world->rank() != 0 || !io.env.is_folder(folder.checkpoints())) return;
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
