// Whether a run keeps snapshots in memory, and how: config.snapshot.mode resolved for one layout.
//
//   const SnapshotChoice choice = choose_snapshot(config, layout, /*is_launched=*/true);
//   if (choice.mode == SnapshotMode::off) say("no snapshots: " + choice.why);
//
//   slots   masters and optimizer state are updated out of place, from one slot to the other: their bytes once more
//   copy    all is updated in place and copied to the older of two slots: the bytes of the state twice more
//   off     none
//   auto    slots under a launcher, where they can be and where their memory is there; else off
//
// With checkpoint.background there are three slots: the bytes of masters and optimizer state once more.
// Errors: ConfigError for a mode that the layout or the place of the state rules out. Thread rule: pure functions.
#pragma once

#include <string>

#include "athanor/config/config.h"
#include "athanor/layout/layout.h"

namespace athanor::engine {

enum class SnapshotMode { off, slots, copy };

struct SnapshotChoice {
  SnapshotMode mode = SnapshotMode::off;
  std::string why = {};     // of `off`
  bool may_be_off = false;  // chosen by auto, so that a plan that does not fit goes without
  int num_slots = 2;        // 3: one can be pinned and written to disk in the background
  bool may_be_two = false;  // chosen by auto, likewise
};

// `is_launched`: somebody holds the slots' memory; `may_save`: and writes checkpoints out of them, too.
SnapshotChoice choose_snapshot(const Config& config, const Layout& layout, bool is_launched,
                               bool may_save = false);

}  // namespace athanor::engine
