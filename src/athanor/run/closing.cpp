#include "athanor/run/closing.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "athanor/base/clock.h"
#include "athanor/base/file.h"
#include "athanor/base/human.h"

namespace athanor::run {
namespace {

std::string losses_text(const LossSummary& losses) {
  if (!losses.first) return "";
  return fmt::format("first {:.4f}, last {:.4f}, best {:.4f} at step {}", losses.first->loss,
                     losses.last->loss, losses.best->loss, losses.best->step);
}

std::string next_text(const Ending& ending) {
  if (ending.status == "finished" && !ending.continues_text)
    return fmt::format("athanor evaluate {}", ending.run_folder);
  if (ending.status == "finished")
    return fmt::format("athanor evaluate {0}\nathanor generate {0} --prompt \"...\"", ending.run_folder);
  return ending.saved_step > 0 ? fmt::format("the same command goes on from step {}", ending.saved_step)
                               : "the same command starts at step 1";
}

}  // namespace

void LossSummary::add(int64_t step, double loss) {
  if (!std::isfinite(loss)) return;
  last = LossPoint{step, loss};
  if (!first) first = last;
  if (!best || loss < best->loss) best = last;
}

Ending ending_of(const TrainReport& report, const std::string& name, int64_t step, int64_t total_steps,
                 int64_t saved_step) {
  Ending ending{.name = name,
                .run_folder = report.run_folder,
                .status = report.status,
                .first_step = report.resumed_step + 1,
                .step = step,
                .total_steps = total_steps,
                .saved_step = std::max<int64_t>(saved_step, 0),
                .seconds = process_age_seconds()};
  ending.validation.add(0, report.valid_loss_first);
  return ending;
}

std::string closing_title(const Ending& ending) {
  const bool saved = ending.saved_step == ending.step && ending.step > 0;
  if (ending.status == "finished")
    return fmt::format("{} · finished: step {} of {}", ending.name, ending.step, ending.total_steps);
  if (ending.step == 0)
    return fmt::format("{} · {} before step 1 of {}", ending.name, ending.status, ending.total_steps);
  return fmt::format("{} · {} at step {} of {}{}", ending.name, ending.status, ending.step,
                     ending.total_steps, saved ? ", saved" : "");
}

Rows closing_rows(const Ending& ending) {
  Rows rows;
  const auto add = [&](const char* key, const std::string& text) {
    if (!text.empty()) rows.emplace_back(key, text);
  };
  const int64_t steps = ending.step - ending.first_step + 1;
  add("time", fmt::format("{} for {} step{}", human_seconds(ending.seconds), with_commas(steps),
                          steps == 1 ? "" : "s"));
  add("training loss", losses_text(ending.training));
  add("validation loss", losses_text(ending.validation));
  add("loss plot", ending.plot);
  add("report", join_path(ending.run_folder, "report.html"));
  std::string dropped;
  for (const auto& [what, times] : ending.dropped)
    dropped += fmt::format("{}{} {}", dropped.empty() ? "" : ", ", with_commas(times), what);
  add("not written", dropped);
  std::string next = next_text(ending);
  const size_t second = next.find('\n');
  add("next", next.substr(0, second));
  if (second != std::string::npos) add("", next.substr(second + 1));
  return rows;
}

}  // namespace athanor::run
