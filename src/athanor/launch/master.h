// Decides what becomes of the ranks of a job: which processes run, when they meet as the next generation of the world,
// who gets whose slots, and when the job ends. It does nothing itself: it is told what happens, with the time, and
// answers with actions (master_actions.h).
//
//   Master master({.num_ranks = 3, .max_restarts = 10, .grace_ns = 5'000'000'000});
//   master.start(now);
//   for (const MasterAction& action : master.take_actions()) ...               // StartWorker{0, 0}, ...
//   master.ready(0, "the start", now);                               // and so on; after the last one: FormWorld
//   master.exited(1, {.signal_number = SIGKILL, .how = "was killed by signal 9 (SIGKILL)"}, now);   // StartWorker{3, 1}
//   poll(..., master.next_tick_ns()); master.tick(now); if (master.done()) return master.verdict(blamed);
//
// - A rank that a signal ends, that ends without last words, or by IoError or a lost peer, is started again; survivors
//   keep their processes and ranks, and all meet again. RestartBudget limits it. What is used up makes the world smaller by
//   a rank as long as it has min_ranks, then ends the job.
// - A wrong config, an Error or values that are not finite end the job, as does any failure if max_restarts is 0.
// - Ranks that have to end have grace_ns to do so, then get SIGTERM, and after another grace_ns SIGKILL. So long, too, has
//   a rank to come back from a world that broke, unless it tokenizes; then it is killed and started again. One that is
//   started again has start_ns to say that it is here.
// - Before the first world all ranks are measured at the same time (warm_up/rounds.h).
// - When rank 0 has ended well the run is saved, and what happens to the other ranks after that harms nothing.
//
// Ranks are numbers among those of this host. Thread rule: one thread. No input/output, no clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "athanor/control/operator_messages.h"
#include "athanor/launch/master_actions.h"
#include "athanor/launch/master_state.h"
#include "athanor/launch/master_values.h"
#include "athanor/launch/restart_budget.h"
#include "athanor/launch/slot_custody.h"
#include "athanor/launch/warm_up/rounds.h"

namespace athanor::launch {

class Master {
 public:
  explicit Master(const MasterOptions& options);

  void start(int64_t now_ns);
  // What workers say. `worker`: as in StartWorker.
  void hello(int worker, int64_t now_ns);
  void ready(int worker, const std::string& why, int64_t now_ns);
  void begun(int worker, int64_t generation, int64_t step, int64_t now_ns);
  void progress(int worker, const control::Progress& progress);
  void saved(int worker, const control::Saved& saved);
  void warmed_up(int worker, const control::WarmedUp& measured, int64_t now_ns);
  void farewell(int worker, const control::Farewell& farewell);
  // It said what nobody understands: it is killed, and the job ends.
  void refused(int worker, const std::string& why, int64_t now_ns);
  void exited(int worker, const RankEnd& end, int64_t now_ns);
  // The agent cannot do what is wanted: the job ends.
  void failed(const std::string& why, int64_t now_ns);

  // The operator's. A signal that asks to save and end; `again`: to end now (stop_requests.h).
  void stop(int signal, bool again, int64_t now_ns);
  // These answer why not, or "". A refusal changes nothing.
  std::string scale(int num_ranks, int64_t now_ns);
  std::string order(const control::Order& order, int64_t now_ns);  // the ranks meet, and do it first

  void tick(int64_t now_ns);
  int64_t next_tick_ns() const;  // kNeverNs: none is needed

  std::vector<MasterAction> take_actions();
  bool goes_on() const { return !ending_ && !finished_; }
  bool done() const;  // nothing runs and nothing will
  // `blamed`: the rank that the ranks' group blames for its failure.
  Verdict verdict(std::optional<int> blamed) const;

  int64_t generation() const { return generation_; }                  // -1: none was formed
  int64_t begun_generation() const { return custody_.generation(); }  // -1: none has begun
  int size() const { return static_cast<int>(seats_.size()); }
  int64_t step() const { return step_; }            // the last that is known to be committed; -1: none
  control::JobStatus status(int64_t now_ns) const;  // without the run's folder and the processes' numbers
  int stop_signal() const { return stop_; }         // that asked to save and end; 0: none has
  int worker_of(int rank) const;                    // -1: nobody has this rank now
  int64_t warm_up_round() const;                    // the round that all ranks are in; -1: none

 private:
  using Seat = MasterSeat;
  using Process = MasterProcess;
  using Stage = MasterProcess::Stage;

  // master.cpp
  void do_next(int64_t now_ns);
  void go_on(int64_t now_ns);
  void start_worker(int rank, int64_t now_ns);
  void form(int64_t now_ns);
  void end_job(const std::string& why);
  void fail_job(int worker, int64_t now_ns);
  void fail_job(const std::string& why, int64_t now_ns);
  int culprit(std::optional<int> blamed) const;
  // master_recovery.cpp
  void take_failure(int worker, int64_t now_ns);
  void take_good_end(int worker, int64_t now_ns);
  void restart(int rank, const std::string& how, int64_t now_ns);
  void give_up(int rank, const std::string& how, const std::string& refusal, int64_t now_ns);
  bool meet_without_deaths(int64_t now_ns);
  void break_world(int rank, const std::string& why, int64_t now_ns);
  void open_incident(const std::string& why, int64_t now_ns);
  void leave(int worker, const std::string& why, int64_t now_ns);
  void resize(int num_ranks, int64_t now_ns);
  void wrap_up(int64_t now_ns);
  void take_early_end(int64_t now_ns);
  // master_warm_up.cpp
  bool has_warmed_up(int64_t now_ns);
  void tell_warm_up(int64_t now_ns);
  // master_operator.cpp
  std::string why_not_now() const;
  control::RankState state_of(const Process& process) const;

  bool elastic() const { return options_.max_restarts > 0; }
  bool in_world(int worker) const;
  bool is_coming(int rank) const;
  bool all_wait() const;
  Process* process_of(int rank);
  std::string name(int rank) const;
  std::string at_step() const;

  MasterOptions options_;
  RestartBudget budget_;
  SlotCustody custody_;
  warm_up::Rounds warm_up_;
  std::map<int, Process> processes_;  // by number
  std::vector<Seat> seats_;           // by rank, of the next world
  std::vector<int> world_;            // by rank: the members of the newest world
  size_t begun_size_ = 0;
  std::optional<MasterIncident> incident_;
  control::Order order_;                             // of the next world
  int64_t generation_ = -1, step_ = -1;              // of the newest world
  int64_t first_begun_ns_ = kNeverNs, lost_ns_ = 0;  // by incidents that are over
  bool broken_ = false, attempt_open_ = false;       // the newest world; ranks that fail now fail with others
  std::set<int> failed_ranks_;                       // of this attempt
  int64_t form_at_ns_ = 0, escalate_at_ns_ = kNeverNs;
  int stop_ = 0;  // the signal
  bool ending_ = false, ended_by_us_ = false, finished_ = false;
  bool believe_blame_ = true;  // the newest world broke by the failure that ends the job
  std::string end_why_;        // for those who wait
  std::string job_failure_, job_hint_, refusal_, shrunk_why_;
  std::vector<int> failed_;  // workers, in the order of their ends, without those ended by us
  std::vector<MasterAction> actions_;
};

}  // namespace athanor::launch
