// What a rank knows of checkpoints that whoever holds its slots writes out of them, while it trains on (rendezvous.h).
//
//   run.slot_saves.handed_step = step;            // all ranks have pinned their slots of it
//   if (rank == 0) run.slot_saves.persist(what, files);
//   run.take_saved();                             // after each step
//   run.settle_saved();                           // before anything that must not cross with it
//
// Thread rule: plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "athanor/checkpoint/format/shards.h"
#include "athanor/control/messages.h"

namespace athanor::run {

struct SlotSaves {
  bool are_possible = false;  // somebody holds the slots in this world, and writes
  int64_t handed_step = -1;   // of which, in this world, not all ranks know the end; -1: there is none
  int64_t told_step = -1;     // on rank 0: the last of which the end was told
  // On rank 0.
  std::function<void(const control::Persist& what, const std::vector<TextFile>& files)> persist =
      [](const control::Persist&, const std::vector<TextFile>&) {};
  std::function<std::optional<control::Persisted>(bool wait)> persisted =
      [](bool) -> std::optional<control::Persisted> { return std::nullopt; };
};

}  // namespace athanor::run
