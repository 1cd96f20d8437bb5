// flip-slot: a rank is gone, and a bit of its newest snapshot in memory has flipped before anybody reads it.
#include <csignal>

#include "athanor/chaos/faults.h"
#include "athanor/chaos/job.h"
#include "athanor/chaos/slot_memory.h"

namespace athanor::chaos::kinds {
namespace {

class FlipSlot final : public Fault {
 public:
  FaultText text() const override {
    return {.name = "flip-slot",
            .what = "SIGKILL to one rank, and a bit flips in the newest of its slots",
            .must =
                "the slot is refused; the job goes on from an older step that is whole, with the bits of the "
                "undisturbed run and the processes of the others",
            .control = "bits of each tensor flip, and the checksums are made to agree"};
  }
  std::vector<int> draw_ranks(Dice& dice, int num_ranks) const override { return {dice.below(num_ranks)}; }
  // The launcher stands still meanwhile, so that nobody has read the slots.
  void inject(JobHandle& job, const Draw& draw) const override {
    job.signal_launcher(SIGSTOP);
    job.strike(draw.ranks, SIGKILL);
    job.wait_for_end_of(draw.ranks.front());
    auto slots = SlotMemory::of_rank(job.launcher_pid(), draw.ranks.front());
    if (!slots) {
      job.note("the launcher holds no slots of the rank");
    } else if (draw.is_control) {
      slots->falsify();
    } else {
      slots->flip(draw.second);
    }
    job.signal_launcher(SIGCONT);
  }
  Expectation expectation() const override { return {.most_redone_steps = kAnySteps, .survivors = true}; }
  std::vector<std::string> control_settings() const override { return {}; }
};

}  // namespace

const Fault& flip_slot_fault() {
  static const FlipSlot fault;
  return fault;
}

}  // namespace athanor::chaos::kinds
