// Collectives on memory that every rank can address: the same bits as through slots, and nothing goes through
// the slots.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "athanor/base/error.h"
#include "athanor/comm/shm/shm.h"
#include "athanor/comm/shm/shm_group.h"
#include "athanor/comm/shm/thread.h"
#include "comm/forked.h"
#include "comm/reference.h"

namespace athanor::tests::shared_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

// Below and above what is worth a second wait, whole chunks and broken ones.
const std::vector<int64_t> kSharedCounts = {0, 1, 1000, 36'011};

GroupOptions page_slots() {
  GroupOptions options;
  options.slot_bytes = 4096;
  options.timeout_ms = 600'000;
  return options;
}

using Allocate = std::function<std::shared_ptr<std::byte>(size_t)>;
const Allocate kOfProcess = [](size_t size_bytes) { return map_shared_memory(size_bytes); };

// Elements of shared memory, or not, that start at some offset.
template <typename T>
class Buffer {
 public:
  Buffer(Group& group, bool shared, int64_t offset, int64_t count, const Allocate& allocate = kOfProcess)
      : count_(static_cast<size_t>(count)) {
    const size_t bytes = static_cast<size_t>(count + 256) * sizeof(T);  // the same on every rank
    region_ = shared ? allocate(bytes) : nullptr;
    group.share(region_, bytes, "buffer");
    if (!shared) own_.resize(bytes);
    data_ = static_cast<T*>(static_cast<void*>(shared ? region_.get() : own_.data())) + offset;
  }
  T* data() const { return data_; }
  void fill(const std::vector<T>& values) { std::copy(values.begin(), values.end(), data_); }
  std::vector<T> values() const { return {data_, data_ + count_}; }

 private:
  size_t count_;
  std::shared_ptr<std::byte> region_;
  std::vector<std::byte> own_;
  T* data_;
};

// `shared(rank)`: whether a rank's buffers are. Ranks begin at other offsets.
template <typename T>
void run_all(Group& group, const Allocate& allocate, const std::function<bool(int)>& shared) {
  const int n = group.size(), me = group.rank();
  const Dtype dtype = DtypeOf<T>::value;
  const int64_t offset = me * 3;
  for (const int64_t count : kSharedCounts) {
    Buffer<T> one(group, shared(me), offset, count, allocate),
        many(group, shared(me), offset, n * count, allocate),
        more(group, shared(me), offset, n * count, allocate);
    one.fill(samples<T>(me, 0, count));
    group.all_reduce(one.data(), count, dtype, "sum").wait();
    ASSERT_TRUE(same_bits(one.values(), serial_sums<T>(n, 0, count))) << n << " ranks, " << count;

    many.fill(samples<T>(me, 0, n * count));
    group.reduce_scatter(many.data(), one.data(), count, dtype, "rs").wait();
    ASSERT_TRUE(same_bits(one.values(), serial_sums<T>(n, me * count, count))) << n << " ranks, " << count;
    group.all_to_all(many.data(), more.data(), count, dtype, "turn").wait();
    ASSERT_TRUE(same_bits(more.values(), rows_for<T>(me, n, count))) << n << " ranks, " << count;
    group.reduce_scatter(many.data(), many.data() + me * count, count, dtype, "rs in place").wait();
    group.all_gather(many.data() + me * count, many.data(), count, dtype, "gather in place").wait();
    ASSERT_TRUE(same_bits(many.values(), serial_sums<T>(n, 0, n * count))) << n << " ranks, " << count;
    std::fill_n(more.data(), n * count, T{});
    group.all_gather(one.data(), more.data(), count, dtype, "gather").wait();
    ASSERT_TRUE(same_bits(more.values(), serial_sums<T>(n, 0, n * count))) << n << " ranks, " << count;

    for (int root = 0; root < n; ++root) {
      one.fill(samples<T>(me, root, count));
      group.broadcast(one.data(), count, dtype, root, "broadcast").wait();
      ASSERT_TRUE(same_bits(one.values(), samples<T>(root, root, count))) << n << " ranks, " << count;
    }
  }
}

void run_trees(Group& group, const Allocate& allocate, const std::function<bool(int)>& shared) {
  const int n = group.size(), me = group.rank();
  const int64_t count = 20'011;
  for (const int64_t leaves : {1, 2, 5, 8, 13}) {
    const auto [first, last] = micro_batches_of_rank(leaves, n, me);
    std::vector<Buffer<float>> buffers;
    buffers.reserve(9);
    std::vector<TreeNode> nodes;
    for (int i = 0; i < 9; ++i) buffers.emplace_back(group, shared(me), 16 * i, count, allocate);
    for (const auto& range : cover_nodes(first, last, leaves)) {
      buffers[nodes.size()].fill(node_sum(range, leaves, count));
      nodes.push_back({range.first, range.second, buffers[nodes.size()].data()});
    }
    const auto expected = node_sum({0, leaves}, leaves, count);
    group.all_reduce_tree(nodes, leaves, buffers[8].data(), count, "apart").wait();
    ASSERT_TRUE(same_bits(buffers[8].values(), expected)) << n << " ranks, " << leaves << " leaves";
    for (size_t i = 0; i < nodes.size(); ++i)  // the nodes belong to the caller
      ASSERT_TRUE(same_bits(buffers[i].values(), node_sum({nodes[i].first, nodes[i].last}, leaves, count)));
    float* into = nodes.empty() ? buffers[8].data() : nodes.back().data;
    group.all_reduce_tree(nodes, leaves, into, count, "into a node").wait();
    ASSERT_TRUE(same_bits(std::vector<float>(into, into + count), expected));
  }
}

void run_everything(Group& group, const Allocate& allocate) {
  const auto all = [](int) { return true; };
  const auto some = [](int rank) { return rank != 1; };
  run_all<float>(group, allocate, all);
  run_all<Bf16>(group, allocate, all);
  run_all<double>(group, allocate, all);
  run_all<int64_t>(group, allocate, all);
  run_all<float>(group, allocate, some);
  run_trees(group, allocate, all);
  run_trees(group, allocate, some);
}

void run_everything_in(World& world) {
  run_everything(world.all(), [&world](size_t size_bytes) { return world.allocate(size_bytes); });
}

TEST(Shared, EveryCollectiveBetweenThreads) {
  for (const int n : {1, 2, 3, 5}) run_ranks(make_thread_worlds(n, page_slots()), run_everything_in);
}

TEST(Shared, EveryCollectiveBetweenProcesses) {
  for (const int n : {2, 3}) {
    const ShmSegment segment(n, 4096);
    TestRanks ranks(
        n, [&](int rank) { run_everything_in(*open_shm_world(segment.fd(), rank, n, page_slots())); });
    EXPECT_THAT(ranks.outcomes(), Each("")) << n << " ranks";
  }
}

// Memory is the rank's: a group that is gone leaves it as it is, and the next one shares it anew, also from its middle.
TEST(Shared, MemoryOutlivesItsGroups) {
  const int64_t count = 70'000;
  const auto bytes = static_cast<size_t>(count) * sizeof(float);
  const auto body = [&](World& world) {
    const auto memory = world.allocate(2 * bytes);
    auto* data = static_cast<float*>(static_cast<void*>(memory.get()));
    for (int generation = 1; generation <= 3; ++generation) {
      const auto group = world.make_group({0, 1}, "generation");
      const auto half = std::shared_ptr<std::byte>(memory, memory.get() + (generation == 2 ? bytes : 0));
      group->share(half, bytes, "half");
      auto* first = static_cast<float*>(static_cast<void*>(half.get()));
      const auto mine = samples<float>(world.rank(), generation, count);
      std::copy(mine.begin(), mine.end(), first);
      group->all_reduce(first, count, Dtype::f32, "sum").wait();
      EXPECT_TRUE(
          same_bits(std::vector<float>(first, first + count), serial_sums<float>(2, generation, count)));
    }
    // What the second generation has summed is still there.
    EXPECT_TRUE(
        same_bits(std::vector<float>(data + count, data + 2 * count), serial_sums<float>(2, 2, count)));
  };
  run_ranks(make_thread_worlds(2, page_slots()), body);
  const ShmSegment segment(2, 4096);
  TestRanks ranks(2, [&](int rank) { body(*open_shm_world(segment.fd(), rank, 2, page_slots())); });
  EXPECT_THAT(ranks.outcomes(), Each(""));
}

// Threads address each other's memory as it is.
RankMemory of_threads() {
  return {kOfProcess,
          [](const std::byte* own) { return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(own)); },
          [](uint64_t place, size_t) {
            return std::shared_ptr<std::byte>(std::shared_ptr<void>(),
                                              reinterpret_cast<std::byte*>(static_cast<uintptr_t>(place)));
          }};
}

// Groups over an arena whose slots the test can see.
struct Glass {
  explicit Glass(int size) : size_bytes((SlotArena::bytes(size, 4096) + 4095) / 4096 * 4096) {
    memory = {std::aligned_alloc(4096, size_bytes), std::free};
    std::fill_n(static_cast<char*>(memory.get()), size_bytes, '\0');
    const SlotArena arena = SlotArena::create(memory.get(), size, 4096);
    for (int rank = 0; rank < size; ++rank) {
      arena.set_presence(rank, Presence::joined);
      groups.push_back(std::make_unique<SlotGroup>(
          SlotGroup::Transport{arena, memory, [](int) { return std::string(); }, of_threads()}, rank,
          page_slots()));
    }
  }
  // Whether anything was ever written to a slot.
  bool slots_are_clean(int size) const {
    const SlotArena arena = SlotArena::attach(memory.get(), size_bytes, "test");
    for (int rank = 0; rank < size; ++rank)
      if (std::any_of(arena.slot(rank, 0), arena.slot(rank, 0) + 2 * 4096,
                      [](std::byte b) { return b != std::byte{0}; }))
        return false;
    return true;
  }
  size_t size_bytes;
  std::shared_ptr<void> memory;
  std::vector<std::unique_ptr<Group>> groups;
};

TEST(Shared, NothingGoesThroughTheSlots) {
  const int64_t count = 70'003;
  Glass glass(3);
  run_ranks(glass.groups, [&](Group& group) {
    Buffer<float> one(group, true, 0, count), many(group, true, 0, 3 * count),
        more(group, true, 0, 3 * count);
    many.fill(samples<float>(group.rank(), 0, 3 * count));
    one.fill(samples<float>(group.rank(), 0, count));
    group.all_reduce(one.data(), count, Dtype::f32, "a").wait();
    group.reduce_scatter(many.data(), one.data(), count, Dtype::f32, "b").wait();
    group.all_gather(one.data(), more.data(), count, Dtype::f32, "c").wait();
    group.all_to_all(many.data(), more.data(), count, Dtype::f32, "d").wait();
    group.broadcast(one.data(), count, Dtype::f32, 1, "e").wait();
  });
  EXPECT_TRUE(glass.slots_are_clean(3));
  Glass copied(3);
  run_ranks(copied.groups, [&](Group& group) {
    Buffer<float> one(group, group.rank() != 2, 0, count);
    one.fill(samples<float>(group.rank(), 0, count));
    group.all_reduce(one.data(), count, Dtype::f32, "a").wait();
  });
  EXPECT_FALSE(copied.slots_are_clean(3));  // else the above would prove nothing
}

// A rank that comes late finds its share done by the others, and none returns before the last chunk is done.
TEST(Shared, RanksAreNotWaitedForToWork) {
  const int n = 5, rounds = 300;
  const int64_t count = 40'000;
  std::vector<std::vector<double>> brought;
  brought.reserve(n);
  for (int r = 0; r < n; ++r) brought.push_back(samples<double>(r, 0, count));
  const auto expected = serial_sums<double>(n, 0, count);
  const auto groups = make_thread_groups(n, page_slots());
  run_ranks(groups, [&](Group& group) {
    Buffer<double> buffer(group, true, 0, count);
    for (int round = 0; round < rounds; ++round) {
      buffer.fill(brought[static_cast<size_t>(group.rank())]);
      group.all_reduce(buffer.data(), count, Dtype::f64, "x").wait();
      ASSERT_TRUE(same_bits(buffer.values(), expected)) << round;
    }
  });
}

TEST(Shared, MemoryIsClearedAndOutlivesItsWorld) {
  const auto is_clear = [](const std::shared_ptr<std::byte>& memory, size_t bytes) {
    return std::all_of(memory.get(), memory.get() + bytes, [](std::byte b) { return b == std::byte{0}; });
  };
  const ShmSegment segment(1, 4096);
  for (const bool threads : {true, false}) {
    auto world = threads ? std::move(make_thread_worlds(1, page_slots())[0])
                         : open_shm_world(segment.fd(), 0, 1, page_slots());
    std::shared_ptr<std::byte> kept;
    for (int i = 0; i < 3; ++i) {
      kept = world->allocate(5000);  // the one before is dropped meanwhile
      EXPECT_TRUE(is_clear(kept, 5000));
      std::fill_n(kept.get(), 5000, std::byte{1});
    }
    EXPECT_NE(world->allocate(0), nullptr);
    world.reset();
    EXPECT_EQ(kept.get()[4999], std::byte{1});
  }
}

TEST(Shared, DroppedMemoryIsNoLongerShared) {
  run_ranks(make_thread_worlds(2, page_slots()), [&](World& world) {
    auto region = world.allocate(400'000);
    world.all().share(region, 400'000, "dropped");
    region.reset();
    std::vector<float> data = samples<float>(world.rank(), 0, 50'000);
    world.all().all_reduce(data.data(), 50'000, Dtype::f32, "x").wait();
    ASSERT_TRUE(same_bits(data, serial_sums<float>(2, 0, 50'000)));
  });
}

TEST(Shared, ADeathIsNamedByTheOthers) {
  for (const char* op : {"all_reduce", "all_to_all"})
    for (const int victim : {0, 1, 2}) {
      const ShmSegment segment(3);
      TestRanks ranks(3, [&](int rank) {
        const auto world = open_shm_world(segment.fd(), rank, 3, page_slots());
        Group* group = &world->all();
        const Allocate allocate = [&world](size_t size_bytes) { return world->allocate(size_bytes); };
        Buffer<float> in(*group, true, 0, 300'000, allocate), out(*group, true, 0, 300'000, allocate);
        const auto run = [&](const char* name) {
          if (op == std::string("all_reduce"))
            return group->all_reduce(in.data(), 300'000, Dtype::f32, name).wait();
          group->all_to_all(in.data(), out.data(), 100'000, Dtype::f32, name).wait();
        };
        run("first");
        if (rank == victim) raise(SIGKILL);
        run("second");
      });
      for (int rank = 0; rank < 3; ++rank) {
        if (rank == victim) continue;
        EXPECT_THAT(ranks.outcome(rank), AllOf(HasSubstr("PeerLost " + std::to_string(victim)), HasSubstr(op),
                                               HasSubstr("\"second\"")));
      }
      EXPECT_EQ(ranks.outcome(victim), "signal 9");
    }
}

// A rank that cannot map a region breaks the group instead of letting the others use it.
TEST(Shared, ARankWithoutMemoryIsNamed) {
  Glass glass(2);
  const SlotArena arena = SlotArena::attach(glass.memory.get(), glass.size_bytes, "test");
  glass.groups[1].reset();
  RankMemory full = of_threads();
  full.open = [](uint64_t, size_t) -> std::shared_ptr<std::byte> { throw IoError("no room", ENOMEM); };
  glass.groups[1] = std::make_unique<SlotGroup>(
      SlotGroup::Transport{arena, glass.memory, [](int) { return std::string(); }, full}, 1, page_slots());
  arena.set_presence(1, Presence::joined);
  EXPECT_THROW(run_ranks(glass.groups, [](Group& group) { group.share(kOfProcess(100), 100, "x"); }),
               Recoverable);
  EXPECT_THAT(outcome_of([&] { glass.groups[0]->barrier("later"); }),
              AllOf(HasSubstr("rank 1 failed"), HasSubstr("no room")));
}

}  // namespace
}  // namespace athanor::tests::shared_test
