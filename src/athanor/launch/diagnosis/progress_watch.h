// Finds ranks whose process is stopped: while no rank makes progress, their states in /proc say which one does not run.
//
//   ProgressWatch watch({.kill_ns = 5'000'000'000});
//   watch.formed();                                  // a world: nothing is known of its steps
//   watch.progress(/*step=*/4, now);                 // a rank has done it
//   if (watch.wants_states(now))
//     for (const StoppedRank& found : watch.look(now, {{.rank = 0, .state = 'S'}, {.rank = 1, .state = 'T'}})) tell(found);
//
// - States are wanted every kLookNs, and not before progress has been missing for so long: fast steps cost nothing.
// - A rank that two looks in a row find stopped is told once, `began`; `ended` when it runs again; `too_long` once after
//   max(kill_ns, 5 median steps): the job goes on from memory half a second later, so that waiting longer for a SIGCONT
//   costs more than it may save. One that a debugger holds (t) is told, and is never too long.
// - Time in which nobody looked, because the one who looks was stopped itself, counts for nobody.
//
// Thread rule: one thread. No input/output, no clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::launch::diagnosis {

constexpr int64_t kLookNs = 250'000'000;
constexpr int64_t kMostBetweenLooksNs = 4 * kLookNs;  // else nobody looked

struct ProgressWatchOptions {
  int64_t kill_ns = 5'000'000'000;
};

struct SeenState {
  int rank = 0;
  char state = '?';  // of /proc (stacks.h)
};

struct StoppedRank {
  enum class What { began, ended, too_long };
  What what = What::began;
  int rank = 0;
  char state = 'T';
  int64_t stopped_ns = 0;  // since it was first seen so
  bool operator==(const StoppedRank&) const = default;
};

class ProgressWatch {
 public:
  explicit ProgressWatch(const ProgressWatchOptions& options) : options_(options) {}

  void formed();
  void progress(int64_t step, int64_t now_ns);
  void forget(int rank);  // its process has ended
  bool wants_states(int64_t now_ns) const;
  std::vector<StoppedRank> look(int64_t now_ns, const std::vector<SeenState>& ranks);
  int64_t limit_ns() const;  // of a stop
  bool sees_stopped() const { return !stops_.empty(); }

 private:
  struct Stop {
    char state = 'T';
    int64_t seen_ns = 0;  // of which the time without looks is taken off
    int num_looks = 0;
    bool told = false, told_limit = false;
  };
  ProgressWatchOptions options_;
  int64_t step_ = -1, progress_ns_ = -1, look_ns_ = -1;  // -1: none yet
  std::array<int64_t, 31> intervals_ns_{};               // the latest between two steps
  size_t num_intervals_ = 0;
  std::map<int, Stop> stops_;  // by rank
};

}  // namespace athanor::launch::diagnosis
