// The warm-up of a job as its Master sees it: all ranks wait for their first world, are measured at the same time, and are
// compared. It does nothing itself: it is asked what comes next.
//
//   Rounds rounds({.limit_ns = 10'000'000'000});
//   if (rounds.next({0, 1}, now) == Rounds::Next::measure)          // the workers, by rank; all of them wait
//     for (const int worker : {0, 1}) send(worker, control::WarmUp{rounds.number()});
//   rounds.take(worker, warmed_up);
//   if (rounds.next({0, 1}, now) == Rounds::Next::over) for (const Finding& found : rounds.take_findings()) tell(found);
//
// - A rank is slow if it multiplies matrices, or copies memory, at less than 1 / kSlowFactor of the median of the others. Before
//   it is named all are measured again, kMostRounds times in all; its best is then held against the worst of each other: a
//   machine that is busy for a moment, or has fewer processors than ranks, blames nobody.
// - Where another process takes the place of one meanwhile, that round is of no use, and all are measured again.
// - Who has not answered after limit_ns is named, and the job goes on without what was measured. Who cannot write ends the job.
//
// Thread rule: one thread. No input/output, no clock.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "athanor/control/warm_up_messages.h"
#include "athanor/launch/master_values.h"

namespace athanor::launch::warm_up {

constexpr double kSlowFactor = 1.5;
constexpr int kMostRounds = 3;

struct Finding {
  int rank = -1;  // -1: of all
  std::string
      sentence{};       // "rank 2 multiplies matrices at 0.48 of the others' speed (31 of 64 GFLOP/s): ..."
  bool is_news = true;  // else for events.jsonl alone
};

struct RoundsOptions {
  int64_t limit_ns = 0;  // for an answer; 0: nothing is measured
  int first_rank = 0;    // for names
};

class Rounds {
 public:
  explicit Rounds(const RoundsOptions& options) : options_(options), is_over_(options.limit_ns == 0) {}

  enum class Next { wait, measure, over, refused };
  // Of ranks that all wait. `refused`: the job cannot go on (refusal()).
  Next next(const std::vector<int>& workers, int64_t now_ns);
  void take(int worker, const control::WarmedUp& measured);

  int64_t number() const { return number_; }  // of the newest round; -1: there was none
  bool is_measuring() const { return !is_over_ && number_ >= 0; }
  int64_t until_ns() const { return is_measuring() ? until_ns_ : kNeverNs; }
  std::vector<Finding> take_findings() { return std::exchange(findings_, {}); }  // once it is over
  const std::string& refusal() const { return refusal_; }
  const std::string& hint() const { return hint_; }
  double seconds(int64_t now_ns) const { return static_cast<double>(now_ns - began_ns_) * 1e-9; }

 private:
  void look_for_refusal();
  std::vector<Finding> slow_ranks() const;
  void conclude(std::vector<Finding> slow);
  std::string name(size_t rank) const;

  RoundsOptions options_;
  bool is_over_;
  int64_t number_ = -1, began_ns_ = 0, until_ns_ = kNeverNs;
  int num_whole_ = 0;                       // rounds, of these workers
  std::vector<int> workers_;                // by rank
  std::map<int, control::WarmedUp> taken_;  // of the newest round, by worker
  std::vector<control::WarmedUp> best_;     // by rank, of all rounds of these workers
  std::vector<control::WarmedUp> worst_;    // the same
  std::vector<Finding> findings_;
  std::string refusal_, hint_;
};

}  // namespace athanor::launch::warm_up
