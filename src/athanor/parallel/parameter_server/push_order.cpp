#include "athanor/parallel/parameter_server/push_order.h"

#include <algorithm>

#include "athanor/base/check.h"

namespace athanor::parallel::parameter_server {

PushOrder::PushOrder(int workers, int64_t staleness, int64_t step, int64_t version)
    : bound_(staleness), version_(version) {
  check(workers >= 1 && staleness >= 0, "push order: got {} workers, staleness {}, expected at least 1 and 0",
        workers, staleness);
  clocks_.assign(static_cast<size_t>(workers), {.step = step, .pulled = version});
}

int64_t PushOrder::slowest() const {
  return std::min_element(clocks_.begin(), clocks_.end(),
                          [](const Clock& a, const Clock& b) { return a.step < b.step; })
      ->step;
}

PushRecord PushOrder::apply(const Push& push) {
  check(0 <= push.worker && push.worker < static_cast<int>(clocks_.size()), "push order: got worker {} of {}",
        push.worker, clocks_.size());
  Clock& clock = clocks_[static_cast<size_t>(push.worker)];
  check(!clock.waits, "push order: worker {} pushed step {} before it was answered", push.worker, push.step);
  check(push.step == clock.step + 1, "push order: worker {} pushed step {}, expected {}", push.worker,
        push.step, clock.step + 1);
  clock.step = push.step;
  clock.waits = true;
  clock.commit = push.commit;
  return {.version = ++version_, .push = push, .pulled = clock.pulled, .staleness = clock.staleness};
}

std::vector<int> PushOrder::take_answers() {
  std::vector<int> workers;
  const int64_t slowest_step = slowest();
  for (size_t w = 0; w < clocks_.size(); ++w) {
    Clock& clock = clocks_[w];
    const int64_t ahead = clock.step - slowest_step;
    if (!clock.waits || ahead > (clock.commit ? 0 : bound_)) continue;
    clock.waits = false;
    clock.pulled = version_;
    clock.staleness = ahead;
    workers.push_back(static_cast<int>(w));
  }
  return workers;
}

int64_t PushOrder::first_unknown_step() const {
  int64_t last = 0;
  for (const Clock& clock : clocks_) last = std::max(last, clock.waits ? clock.step : clock.step + 1);
  return last + 1;
}

bool PushOrder::committed(int64_t step) const {
  return std::all_of(clocks_.begin(), clocks_.end(),
                     [step](const Clock& clock) { return clock.step == step && !clock.waits; });
}

}  // namespace athanor::parallel::parameter_server
