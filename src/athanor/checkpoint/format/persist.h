// Writes a checkpoint out of the pinned slots of all ranks (slots.h): by whoever holds their memory, while the ranks train
// on, and also when they are gone. Its files are byte for byte those that the ranks write together (checkpoint.h).
//
//   slots.pin();                                                               // each rank, after its step has committed
//   persist_slots(env, {.path = "runs/a/checkpoints/step_00000100", .step = 100, .files = files}, memories);
//   ...                                                                        // and release_pins() of each
//
// Every byte is verified before it is written, and that the slots are still what they were before the checkpoint gets its
// name. The protocol is that of write_checkpoint(). Errors: Error for slots that are not those of the step, or damaged;
// IoError of the Env, and where another process is writing in that folder; Interrupted by `give_up`. None leaves anything
// under the path. Thread rule: any thread; the slots are only read.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/checkpoint/format/shards.h"

namespace athanor::checkpoint::format {

struct PersistOrder {
  std::string path;
  int64_t step = 0;
  std::vector<TextFile> files = {};          // beside the tensors
  std::vector<std::string> sync_first = {};  // files that have to survive a power cut if the checkpoint does
};

// `memories`: the slots of each rank, by rank. `begun` is called once the folder is this writer's alone.
void persist_slots(Env& env, const PersistOrder& order, std::span<const std::span<const std::byte>> memories,
                   const std::atomic<bool>* give_up = nullptr, const std::function<void()>& begun = {});

// Files as one text, for another process; Error for a text that is none.
std::string pack_files(const std::vector<TextFile>& files);
std::vector<TextFile> unpack_files(std::string_view text);

}  // namespace athanor::checkpoint::format
