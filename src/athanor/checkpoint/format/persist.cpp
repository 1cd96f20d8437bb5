#include "athanor/checkpoint/format/persist.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/interrupted.h"
#include "athanor/checkpoint/format/slot_reader.h"
#include "athanor/checkpoint/format/staged_folder.h"

namespace athanor::checkpoint::format {
namespace {

// What a rank holds: its slices, each with its first byte.
struct Part {
  SlotReader slot;
  std::vector<HeldSlice> slices = {};
  std::vector<const std::byte*> values = {};
};

Part part_of(std::span<const std::byte> memory, size_t rank, int64_t step) {
  const std::optional<int> pinned = pinned_slot(memory);
  check(pinned.has_value(), "checkpoint: rank {}: no slot is pinned", rank);
  const SlotFinding found = examine_slot(memory, *pinned, {.rank = static_cast<int>(rank)});
  check(found.state == SlotState::whole, "checkpoint: rank {}: {}", rank, found.reason);
  check(found.step == step, "checkpoint: rank {}: its slot is of step {}, expected {}", rank, found.step,
        step);
  Part part{.slot = SlotReader::trusted(memory, *pinned)};
  for (const PlacedTensor& held : part.slot.tensors()) {
    check(held.tensor.dtype == Dtype::f32, "checkpoint: rank {}: tensor '{}': got {}, expected f32", rank,
          held.tensor.name, name_of(held.tensor.dtype));
    const std::byte* values = part.slot.data(held);
    for (const Box& box : held.tensor.boxes) {
      part.slices.push_back({held.tensor.name, held.tensor.shape, box});
      part.values.push_back(values);
      values += static_cast<size_t>(box.extent.numel()) * sizeof(float);
    }
  }
  return part;
}

void write_all(Env& env, const PersistOrder& order, std::span<const std::span<const std::byte>> memories,
               const std::function<void()>& check_wanted, const std::function<void()>& begun) {
  StagedFolder staged(env, order.path);
  if (begun) begun();
  std::vector<Part> parts;
  std::vector<std::vector<HeldSlice>> lists;
  for (size_t rank = 0; rank < memories.size(); ++rank) {
    check_wanted();
    parts.push_back(part_of(memories[rank], rank, order.step));
    lists.push_back(parts.back().slices);
  }
  const std::string state = parts.front().slot.state();
  for (size_t rank = 0; rank < parts.size(); ++rank)
    check(
        parts[rank].slot.state() == state && parts[rank].slot.generation() == parts.front().slot.generation(),
        "checkpoint: the state of rank {} is not that of rank 0", rank);
  const CheckpointHead head{.step = order.step, .state = state, .files = order.files};
  check_head(head.step, head.state, head.files);
  std::optional<SlicePlan> plan;
  ShardTable table(0, 0);
  for (int rank = 0; rank < static_cast<int>(parts.size()); ++rank) {
    const Part& part = parts[static_cast<size_t>(rank)];
    plan = plan_slices(lists, rank);
    if (rank == 0) table = ShardTable(plan->slices.size(), static_cast<int>(parts.size()));
    write_shard(
        env, staged.path(), rank, order.step, *plan,
        [&](const SlicePlan::Slice& slice, const ShardSink& sink) {
          for (uint64_t done = 0; done < slice.size_bytes; done += kShardPieceBytes) {
            check_wanted();
            sink(part.values[slice.local] + done,
                 static_cast<size_t>(std::min<uint64_t>(kShardPieceBytes, slice.size_bytes - done)));
          }
        },
        table);
  }
  for (const std::string& path : order.sync_first)
    if (env.exists(path)) env.append_to(path)->sync();
  for (size_t rank = 0; rank < parts.size(); ++rank)
    check(parts[rank].slot.unchanged(), "checkpoint: rank {}: its slot was overwritten while it was read",
          rank);
  write_rest(env, staged.path(), head, *plan, table);
  check_wanted();
  staged.commit();
}

}  // namespace

void persist_slots(Env& env, const PersistOrder& order, std::span<const std::span<const std::byte>> memories,
                   const std::atomic<bool>* give_up, const std::function<void()>& begun) {
  check(!memories.empty(), "checkpoint: got the slots of no rank");
  const auto check_wanted = [&] {
    if (give_up != nullptr && give_up->load())
      throw Interrupted(fmt::format("the checkpoint of step {} was given up", order.step));
  };
  try {
    write_all(env, order, memories, check_wanted, begun);
  } catch (const std::bad_alloc&) {
    throw IoError("the system gives no more memory", ENOMEM);
  }
}

// A file is a line "SIZE NAME" and its bytes.
std::string pack_files(const std::vector<TextFile>& files) {
  std::string text;
  for (const TextFile& file : files) text += fmt::format("{} {}\n{}", file.text.size(), file.name, file.text);
  return text;
}

std::vector<TextFile> unpack_files(std::string_view text) {
  std::vector<TextFile> files;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size()), end = std::min(text.find('\n'), text.size());
    size_t size_bytes = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + space, size_bytes);
    check(error == std::errc() && stop == text.data() + space && space < end && end < text.size() &&
              size_bytes <= text.size() - end - 1,
          "checkpoint: the list of files is cut off");
    files.push_back({std::string(text.substr(space + 1, end - space - 1)),
                     std::string(text.substr(end + 1, size_bytes))});
    text.remove_prefix(end + 1 + size_bytes);
  }
  return files;
}

}  // namespace athanor::checkpoint::format
