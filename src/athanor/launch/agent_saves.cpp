// Of the agent's loop: checkpoints that are written out of the slots of the ranks, which it holds.
#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "athanor/base/check.h"
#include "athanor/base/shared_memory.h"
#include "athanor/launch/agent_loop.h"

namespace athanor::launch {
namespace {

std::vector<int> slots_of(const GenerationMemory& memory) {
  std::vector<int> slots;
  for (const control::Descriptor& slot : memory.slots) slots.push_back(slot.get());
  return slots;
}

}  // namespace

void AgentLoop::start_save(const control::Persist& persist,
                           const std::vector<control::Descriptor>& descriptors) {
  check(descriptors.size() == 1, "control message 'persist': came with {} descriptors, expected 1",
        descriptors.size());
  const auto found = memories_.find(persist.generation);
  if (found == memories_.end())
    return send(
        master_.worker_of(0),
        control::Persisted{.step = persist.step, .path = persist.path, .error = "its slots are gone"});
  const auto size_bytes = static_cast<size_t>(persist.files_bytes);
  const auto files = map_shared_memory(std::max<size_t>(size_bytes, 1), descriptors.front().get());
  saver_.start({.path = persist.path,
                .step = persist.step,
                .files = unpack_files({reinterpret_cast<const char*>(files.get()), size_bytes}),
                .sync_first = {persist.metrics}},
               slots_of(found->second), persist.repeated);
}

// Whoever is rank 0 by now is told, also if another process had asked for it.
void AgentLoop::take_saves() {
  while (const auto saved = saver_.take()) send(master_.worker_of(0), *saved);
}

// A world that broke after its ranks had pinned their slots, and before they said so, would have them pinned for ever.
void AgentLoop::release_pins_of(int64_t generation) {
  const auto found = memories_.find(generation);
  if (found != memories_.end() && !saver_.is_busy()) release_slots(slots_of(found->second));
}

// What no rank hears of any more is said here.
void AgentLoop::end_saves() {
  if (saver_.is_busy())
    act(Say{fmt::format("the checkpoint of step {} is still being written", saver_.step())});
  saver_.wait();
  while (const auto saved = saver_.take())
    act(Say{saved->error.empty() ? "saved " + saved->path
                                 : fmt::format("step {} could not be saved: {}", saved->step, saved->error)});
}

}  // namespace athanor::launch
