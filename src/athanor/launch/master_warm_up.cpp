// Of a Master: the ranks are measured against each other before their first world.
#include "athanor/launch/master.h"

namespace athanor::launch {

int64_t Master::warm_up_round() const {
  return generation_ < 0 && !ending_ && stop_ == 0 && warm_up_.is_measuring() && all_wait()
             ? warm_up_.number()
             : -1;
}

void Master::warmed_up(int worker, const control::WarmedUp& measured, int64_t now_ns) {
  warm_up_.take(worker, measured);
  do_next(now_ns);
}

// All ranks wait. Who asks the job to end does not wait for it.
bool Master::has_warmed_up(int64_t now_ns) {
  using Next = warm_up::Rounds::Next;
  if (generation_ >= 0 || stop_ != 0) return true;
  std::vector<int> workers;
  for (const Seat& seat : seats_) workers.push_back(seat.worker);
  const Next next = warm_up_.next(workers, now_ns);
  if (next == Next::refused) {
    job_hint_ = warm_up_.hint();
    fail_job(warm_up_.refusal(), now_ns);
  }
  if (next == Next::measure)
    for (const int worker : workers)
      actions_.push_back(SendToWorker{worker, control::WarmUp{warm_up_.number()}});
  return next == Next::over;
}

// Once the world is formed, as something that has happened to it.
void Master::tell_warm_up(int64_t now_ns) {
  for (const warm_up::Finding& found : warm_up_.take_findings()) {
    if (found.is_news) actions_.push_back(Say{found.sentence});
    actions_.push_back(JobEvent{.event = found.is_news ? "warm-up" : "measured",
                                .generation = generation_,
                                .rank = found.rank,
                                .cause = found.sentence,
                                .detect_seconds = warm_up_.seconds(now_ns)});
  }
}

}  // namespace athanor::launch
