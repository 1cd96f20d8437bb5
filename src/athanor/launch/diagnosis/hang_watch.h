// Finds a job that stands still. Each rank says what it does (control::ProgressKind) and counts it; what is usual is known from
// the median of the latest intervals of each kind.
//
//   HangWatch watch({});
//   watch.formed(/*num_ranks=*/3);                                       // nobody has said what it does
//   watch.progress(1, {.kind = control::ProgressKind::step, .count = 7}, now);
//   if (const auto found = watch.look(now)) ask_where_they_stand(*found);
//
// - A rank is late when it has counted no more of what it does for max(least of the kind, 20 medians). Before three intervals of
//   a kind are known, and while it closes or does something else, it never is.
// - The job stands still when every rank is late: one that waits for another's evaluation is not to blame.
// - Time in which nobody looked, or a rank was stopped (progress_watch.h), counts for nobody.
//
// Thread rule: one thread. No input/output, no clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "athanor/control/messages.h"

namespace athanor::launch::diagnosis {

constexpr size_t kNumKinds = control::kNumProgressKinds;

struct HangWatchOptions {
  // By kind; 0: never late. A save and the end of tokenizing wait for a disk, and count nothing meanwhile.
  std::array<int64_t, kNumKinds> least_ns = {
      10'000'000'000, 10'000'000'000, 60'000'000'000, 300'000'000'000, 0, 0};
};

struct Standstill {
  control::ProgressKind kind = control::ProgressKind::step;  // of the rank that went on last
  int64_t still_ns = 0;                                      // since then
  int64_t usual_ns = 0;                                      // the median
};

class HangWatch {
 public:
  explicit HangWatch(const HangWatchOptions& options) : options_(options) {}

  void formed(int num_ranks);
  void segment_begins();  // with other steps: nothing is known of them
  void progress(int rank, const control::Progress& progress, int64_t now_ns);
  void forget(int rank);  // its process has ended: there is no alarm until the next world
  // As long as the job stands still. `counts` false: the time since the last look is nobody's.
  std::optional<Standstill> look(int64_t now_ns, bool counts = true);

 private:
  struct Rank {
    control::ProgressKind kind = control::ProgressKind::other;
    int64_t count = 0, since_ns = 0;
  };
  struct Intervals {
    std::array<int64_t, 31> latest_ns{};
    size_t num = 0;
  };
  std::optional<int64_t> median_of(control::ProgressKind kind) const;
  bool is_late(const Rank& rank, int64_t now_ns) const;

  HangWatchOptions options_;
  int num_ranks_ = 0;
  std::map<int, Rank> ranks_;
  std::array<Intervals, kNumKinds> intervals_{};
  int64_t look_ns_ = -1;  // -1: none yet
};

}  // namespace athanor::launch::diagnosis
