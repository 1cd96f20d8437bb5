// The summary at the end of a run: how it ended, time, losses, and what to do next.
//
//   const Ending ending{.status = "interrupted", .step = 71, .total_steps = 500, .saved_step = 71};
//   console.header(closing_title(ending), closing_rows(ending));
//
//   ╭─ first · interrupted at step 71 of 500, saved ─────────────────────────────╮
//   │ time              1m04s for 71 steps                                       │
//   │ training loss     first 8.3312, last 4.1201, best 4.0899 at step 68        │
//   │ validation loss   first 8.3290, last 4.3107, best 4.3107 at step 50        │
//   │ loss plot         runs/first/loss.svg                                      │
//   │ report            runs/first/report.html                                   │
//   │ next              the same command goes on from step 71                    │
//   ╰────────────────────────────────────────────────────────────────────────────╯
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "athanor/observe/console.h"
#include "athanor/observe/metrics.h"
#include "athanor/run/report.h"

namespace athanor::run {

struct LossPoint {
  int64_t step = 0;  // 0: before training
  double loss = 0;
};

// The first, last and smallest loss (the earliest of equal ones). NaN and infinity are left out.
struct LossSummary {
  std::optional<LossPoint> first, last, best;
  void add(int64_t step, double loss);
};

struct Ending {
  std::string name = {}, run_folder = {};
  std::string status = {};  // finished, interrupted, failed
  int64_t first_step = 1;   // of this process
  int64_t step = 0, total_steps = 0;
  int64_t saved_step = 0;  // of the newest checkpoint; 0: none
  double seconds = 0;      // of this process
  LossSummary training = {}, validation = {};
  bool continues_text = true;                                 // false: an encoder
  std::string plot = {};                                      // file; "": none was drawn
  std::vector<std::pair<std::string, int64_t>> dropped = {};  // what could not be written, and how often
};

// saved_step: of the newest checkpoint, below 1 where there is none.
Ending ending_of(const TrainReport& report, const std::string& name, int64_t step, int64_t total_steps,
                 int64_t saved_step);
std::string closing_title(const Ending& ending);
Rows closing_rows(const Ending& ending);

}  // namespace athanor::run
