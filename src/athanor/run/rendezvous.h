// A Rendezvous gives a run its worlds, one after the other: the first at its start, another after each failure of a group
// that the run survives.
//
//   OneWorld rendezvous(world);
//   std::optional<Meeting> meeting = rendezvous.next("the start");
//   ... a group of meeting->world breaks ...
//   meeting = rendezvous.next("rank 1 was lost");         // none: the run ends with the failure
//
// A world is whole when next() returns it, with the generation that its groups carry (comm/world.h). Ranks whose values
// are to survive keep rank 0 as rank 0, which writes the run's files. Worlds live as long as the Rendezvous. Thread rule:
// one thread per rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "athanor/checkpoint/format/shards.h"
#include "athanor/comm/world.h"
#include "athanor/control/messages.h"
#include "athanor/observe/event_log.h"

namespace athanor::run {

struct Meeting {
  World* world;
  std::string why;  // for people: what led to it
  // Shared memory for this rank's slots in this world, empty, held by whoever outlives the rank; -1: TrainIo's.
  int slots_fd = -1;
  bool is_on_one_host = false;  // all ranks, which may be another number than before
  // Slots of ranks that are gone, which this process gives to the others (left_slots.h).
  std::vector<int> left_slots_fds = {};
  bool holder_saves = false;  // whoever holds the slots writes checkpoints out of them (Rendezvous::persist)
  bool saves_first = false;   // a checkpoint before the next step
  std::string set = {};       // a setting that changes before the next step: "optimizer.lr=1e-3"
  int64_t rollback_step =
      -1;  // all ranks go on from the checkpoint of this step; -1: from their newest state
  int64_t generation() const { return world->generation(); }
};

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  // Waits for the ranks of the next world. None: there is no other world.
  virtual std::optional<Meeting> next(const std::string& why) = 0;
  // The first snapshot of the newest world is whole on every rank: what is left of older ones is not needed any more.
  // `in_place`: the ranks go on in the slots that they had in the world before; the new ones are not used. `work`: of a step
  // (layout/same_work.h).
  virtual void begun(int64_t /*step*/, const std::string& /*run_folder*/, bool /*in_place*/,
                     int64_t /*work*/) {}
  virtual void committed(int64_t /*step*/) {}  // a step is done
  // What this rank does from here on, and that it has done one more of it. A step is counted by committed().
  virtual void does(control::ProgressKind /*kind*/) {}
  virtual void progressed() {}
  virtual void happened(const observe::RunEvent& /*event*/) {}  // on rank 0, under a launcher
  // On rank 0, after all ranks have pinned their slots of a step: its checkpoint shall be written out of them.
  virtual void persist(const control::Persist& /*what*/, const std::vector<TextFile>& /*files*/) {}
  // What became of it, each once; none: nothing new. `wait`: for the next one; none: there is nobody any more.
  virtual std::optional<control::Persisted> persisted(bool /*wait*/) { return std::nullopt; }
  // On rank 0: its checkpoint is written; or why it could not be.
  virtual void saved(int64_t /*step*/, const std::string& /*path*/, const std::string& /*error*/) {}
};

// A world that no other follows: a lone process, or a launch that starts again as a whole.
class OneWorld final : public Rendezvous {
 public:
  explicit OneWorld(World& world) : world_(&world) {}
  std::optional<Meeting> next(const std::string& why) override {
    if (world_ == nullptr) return std::nullopt;
    return Meeting{std::exchange(world_, nullptr), why};
  }

 private:
  World* world_;
};

}  // namespace athanor::run
