// A snapshot brings every element to whoever reads it, whatever the cut of the tensors before and after.
#include "athanor/checkpoint/snapshot.h"

#include <gtest/gtest.h>

#include <mutex>
#include <numeric>

#include "athanor/base/shared_memory.h"
#include "athanor/comm/shm/thread.h"
#include "checkpoint/content.h"

namespace athanor::tests::snapshot_test {
namespace {

const Shape kWhole{7, 6};

// Element n of the whole tensor is n + 1.
NamedTensor part_of(Engine& engine, const std::string& name, const Box& box) {
  Tensor part = empty(engine.arena, box.extent, Dtype::f32, Category::activations);
  BoxRuns(kWhole, box).walk(0, part.numel(), [&](int64_t in_box, int64_t in_whole, int64_t count) {
    std::iota(part.data<float>() + in_box, part.data<float>() + in_box + count,
              static_cast<float>(in_whole + 1));
  });
  return {.name = name, .tensor = part, .whole = kWhole, .offset = box.offset};
}

void expect_part(const TensorSource& source, const std::string& name, const Box& box) {
  std::vector<float> values(static_cast<size_t>(box.extent.numel()), -1.0f);
  source.read_box(name, kWhole, box, values.data());
  BoxRuns(kWhole, box).walk(0, box.extent.numel(), [&](int64_t in_box, int64_t in_whole, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      EXPECT_EQ(values[static_cast<size_t>(in_box + i)], static_cast<float>(in_whole + i + 1)) << name;
  });
}

// What `rank` of `ranks` holds: a part of the rows, or of the columns.
Box cut(int rank, int ranks, int dim) {
  const int64_t all = kWhole[dim], first = all * rank / ranks, last = all * (rank + 1) / ranks;
  return dim == 0 ? Box{{first, 0}, {last - first, kWhole[1]}} : Box{{0, first}, {kWhole[0], last - first}};
}

TEST(Snapshot, EveryCutIsReadByEveryCut) {
  for (const int before : {1, 2, 3})
    for (const int after : {1, 2, 4}) {
      const int most = std::max(before, after);
      run_ranks(make_thread_groups(most), [&](Group& group) {
        Engine engine;
        Snapshot snapshot;
        if (group.rank() < before)
          snapshot = Snapshot({.step = 5,
                               .state = "{}",
                               .tensors = {part_of(engine, "rows", cut(group.rank(), before, 0)),
                                           part_of(engine, "shared", whole_box(kWhole))},
                               .files = {}},
                              engine.arena);
        const SnapshotHead head =
            load_snapshot(group, snapshot, engine.arena, [&](const TensorSource& source) {
              if (group.rank() >= after) return;
              EXPECT_TRUE(source.has("rows"));
              EXPECT_FALSE(source.has("columns"));
              EXPECT_EQ(source.shape_of("shared"), kWhole);
              std::vector<float> ignored(static_cast<size_t>(kWhole.numel()));
              source.read_box("shared", kWhole, whole_box(kWhole), ignored.data());
            });
        EXPECT_EQ(head.step, 5);
        EXPECT_EQ(head.state, "{}");
        int pass = 0;
        load_snapshot(group, snapshot, engine.arena, [&](const TensorSource& source) {
          std::vector<float> ignored(static_cast<size_t>(kWhole.numel()));
          for (const char* name : {"shared", "rows"}) {
            if (group.rank() >= after) continue;
            const Box box = cut(group.rank(), after, 1);
            if (pass == 0)
              source.read_box(name, kWhole, box, ignored.data());
            else
              expect_part(source, name, box);
          }
          ++pass;
        });
        EXPECT_EQ(pass, 2);
      });
    }
}

std::string fault(
    const std::function<Snapshot(Group&, Engine&)>& snapshot_of,
    const std::function<void(const TensorSource&)>& load = [](const TensorSource&) {}) {
  try {
    run_ranks(make_thread_groups(2), [&](Group& group) {
      Engine engine;
      load_snapshot(group, snapshot_of(group, engine), engine.arena, load);
    });
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

Snapshot of_step(Engine& engine, int64_t step, const std::string& state, const Box& box) {
  return Snapshot({.step = step, .state = state, .tensors = {part_of(engine, "rows", box)}, .files = {}},
                  engine.arena);
}

TEST(Snapshot, RanksThatKeepDifferentThingsAreRefusedByName) {
  EXPECT_EQ(fault([](Group& group, Engine& engine) {
              return of_step(engine, 4 + group.rank(), "{}", whole_box(kWhole));
            }),
            "snapshot: rank 0 keeps step 4, rank 1 step 5");
  EXPECT_EQ(fault([](Group& group, Engine& engine) {
              return of_step(engine, 4, group.rank() == 0 ? "{}" : "{\"seed\":1}", whole_box(kWhole));
            }),
            "snapshot: ranks 0 and 1 keep different states of step 4");
  EXPECT_EQ(fault([](Group&, Engine&) { return Snapshot(); }), "snapshot: no rank keeps one");
  const auto whole = [](Group&, Engine& engine) { return of_step(engine, 4, "{}", whole_box(kWhole)); };
  std::vector<float> values(100);
  EXPECT_EQ(fault(whole,
                  [&](const TensorSource& source) {
                    source.read_box("columns", kWhole, whole_box(kWhole), values.data());
                  }),
            "the snapshot of step 4: the tensor 'columns' is missing");
  EXPECT_EQ(fault(whole,
                  [&](const TensorSource& source) {
                    source.read_box("rows", {6, 7}, whole_box({6, 7}), values.data());
                  }),
            "the snapshot of step 4: tensor 'rows': got [7,6], expected [6,7]");
}

TEST(Snapshot, TheLostPartOfATensorIsNamed) {
  EXPECT_NE(fault([](Group& group, Engine& engine) {
              return group.rank() == 0 ? of_step(engine, 4, "{}", cut(0, 2, 0)) : Snapshot();
            }).find("tensor 'rows'"),
            std::string::npos);
}

TEST(Snapshot, ItsBytesHaveANameAndLastAsLongAsItself) {
  Engine engine;
  {
    const Snapshot snapshot = of_step(engine, 1, "{}", whole_box(kWhole));
    EXPECT_GE(engine.arena.usage().current[static_cast<size_t>(Category::snapshot)],
              static_cast<uint64_t>(kWhole.numel()) * sizeof(float));
  }
  EXPECT_EQ(engine.arena.usage().current[static_cast<size_t>(Category::snapshot)], 0u);
}

// Of a world of four: what each holds, and which step they have in common.
TEST(CommonStep, IsTheNewestThatIsThereWholeInTheNewestGeneration) {
  using Held = std::vector<std::vector<HeldPart>>;  // by rank
  const auto found = [](const Held& held) {
    std::optional<CommonStep> common;
    std::mutex mutex;
    run_ranks(make_thread_groups(static_cast<int>(held.size())), [&](Group& group) {
      const auto of_rank = common_step(group, held[static_cast<size_t>(group.rank())]);
      const std::lock_guard lock(mutex);
      if (group.rank() == 0) common = of_rank;
    });
    return common;
  };
  const auto part = [](int64_t generation, int rank, int size, std::vector<int64_t> steps) {
    return HeldPart{{.generation = generation, .rank = rank, .size = size}, std::move(steps)};
  };
  EXPECT_EQ(found({{}, {}}), std::nullopt);
  EXPECT_EQ(found({{part(0, 0, 2, {7, 6})}, {part(0, 1, 2, {6, 5})}}), (CommonStep{0, 6}));
  EXPECT_EQ(found({{part(0, 0, 2, {7, 6})}, {part(0, 1, 2, {5, 4})}}), std::nullopt);
  EXPECT_EQ(found({{part(0, 0, 3, {6})}, {part(0, 1, 3, {6})}}), std::nullopt) << "nobody has the third part";
  // One process has the parts of two ranks; one has joined.
  EXPECT_EQ(found({{part(2, 0, 2, {9}), part(2, 1, 2, {9, 8})}, {}}), (CommonStep{2, 9}));
  // A newer generation that is whole counts, even at an older step (a rollback); one that is not does not.
  EXPECT_EQ(found({{part(3, 0, 2, {9}), part(4, 0, 2, {5})}, {part(3, 1, 2, {9}), part(4, 1, 2, {5})}}),
            (CommonStep{4, 5}));
  EXPECT_EQ(found({{part(3, 0, 2, {9}), part(4, 0, 2, {9})}, {part(3, 1, 2, {9})}}), (CommonStep{3, 9}));
  EXPECT_EQ(found({{part(3, 0, 1, {9}), part(4, 0, 2, {9})}, {part(4, 1, 2, {10})}}), (CommonStep{3, 9}));
}

// The slots of ranks that are gone, given by one process: every element is there once.
TEST(Snapshot, TakesTheSlotsOfRanksThatAreGone) {
  constexpr uint64_t kCapacity = 100;
  struct Gone {
    std::vector<SlotTensor> tensors = {};
    std::shared_ptr<std::byte> memory = {};
    uint64_t size_bytes = 0;
  };
  const auto gone_at = [&](int rank, int64_t step) {
    Engine engine;
    Gone gone;
    gone.tensors = {{"rows", Dtype::f32, kWhole, {cut(rank, 2, 0)}},
                    {"shared", Dtype::f32, kWhole, {whole_box(kWhole)}}};
    gone.size_bytes = snapshot_bytes(gone.tensors, kCapacity);
    gone.memory = map_shared_memory(gone.size_bytes);
    SlotWriter writer({gone.memory.get(), gone.size_bytes}, gone.tensors,
                      {.run = "run", .layout = "layout", .rank = rank, .size = 2, .generation = 1},
                      kCapacity);
    writer.begin(step);
    for (size_t i = 0; i < 2; ++i)
      writer.copy(i, part_of(engine, gone.tensors[i].name, gone.tensors[i].boxes[0]).tensor.raw());
    writer.commit("{}");
    return gone;
  };
  const Gone first = gone_at(0, 5), second = gone_at(1, 5), older = gone_at(1, 4);
  const auto slot_of = [](const Gone& gone) {
    return SlotReader::newest({gone.memory.get(), gone.size_bytes}, {}).value();
  };
  run_ranks(make_thread_groups(2), [&](Group& group) {
    Engine engine;
    Snapshot snapshot;
    if (group.rank() == 0) {
      snapshot.add(slot_of(first), engine.arena);
      snapshot.add(slot_of(second), engine.arena);
      EXPECT_EQ(snapshot.tensors().size(), 3u) << "what both hold is there once";
      EXPECT_THROW(snapshot.add(slot_of(older), engine.arena), Error);
    }
    EXPECT_EQ(common_head(group, snapshot.head()).step, 5);
    int pass = 0;  // the first one asks
    load_snapshot(group, snapshot, engine.arena, [&](const TensorSource& source) {
      std::vector<float> ignored(static_cast<size_t>(kWhole.numel()));
      for (const char* name : {"rows", "shared"})
        if (pass == 0)
          source.read_box(name, kWhole, whole_box(kWhole), ignored.data());
        else
          expect_part(source, name, whole_box(kWhole));
      ++pass;
    });
  });
}

}  // namespace
}  // namespace athanor::tests::snapshot_test
