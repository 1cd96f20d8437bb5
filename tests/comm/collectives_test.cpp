// Every collective against a serial reference, bit for bit: all sizes of groups, dtypes, and counts around
// the edges of slots, slices and cache lines. Slots are tiny so that small data already moves in many pieces.
#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "athanor/comm/group.h"
#include "athanor/comm/shm/thread.h"
#include "athanor/comm/tree.h"
#include "comm/reference.h"

namespace athanor::tests::collectives_test {
namespace {

const std::vector<int64_t> kCollectiveCounts = {0, 1, 2, 7, 63, 64, 65, 255, 256, 257, 1000, 2051};

template <typename T>
class SumDtypes : public ::testing::Test {};
TYPED_TEST_SUITE(SumDtypes, SumTypes);

TYPED_TEST(SumDtypes, AllReduce) {
  using T = TypeParam;
  for (int n = 1; n <= 8; ++n) {
    const auto groups = make_thread_groups(n, small_slots());
    run_ranks(groups, [&](Group& group) {
      for (int64_t count : kCollectiveCounts) {
        auto data = samples<T>(group.rank(), 0, count);
        group.all_reduce(data.data(), count, DtypeOf<T>::value, "sum").wait();
        ASSERT_TRUE(same_bits(data, serial_sums<T>(n, 0, count))) << n << " ranks, " << count;
      }
    });
  }
}

TYPED_TEST(SumDtypes, ReduceScatter) {
  using T = TypeParam;
  for (int n = 1; n <= 8; ++n) {
    const auto groups = make_thread_groups(n, small_slots());
    run_ranks(groups, [&](Group& group) {
      const int me = group.rank();
      for (int64_t count : kCollectiveCounts) {
        const auto in = samples<T>(me, 0, n * count);
        std::vector<T> out(static_cast<size_t>(count));
        group.reduce_scatter(in.data(), out.data(), count, DtypeOf<T>::value, "rs").wait();
        ASSERT_TRUE(same_bits(out, serial_sums<T>(n, me * count, count))) << n << " ranks, " << count;
        auto row = in;  // in place: out is the own row of in
        group.reduce_scatter(row.data(), row.data() + me * count, count, DtypeOf<T>::value, "rs2").wait();
        const std::vector<T> own(row.begin() + me * count, row.begin() + (me + 1) * count);
        ASSERT_TRUE(same_bits(own, out));
      }
    });
  }
}

template <typename T>
class AllDtypes : public ::testing::Test {};
TYPED_TEST_SUITE(AllDtypes, AllTypes);

TYPED_TEST(AllDtypes, AllGather) {
  using T = TypeParam;
  for (int n = 1; n <= 8; ++n) {
    const auto groups = make_thread_groups(n, small_slots());
    run_ranks(groups, [&](Group& group) {
      const int me = group.rank();
      for (int64_t count : kCollectiveCounts) {
        const auto in = samples<T>(me, 0, count);
        std::vector<T> expected;
        for (int r = 0; r < n; ++r) {
          const auto row = samples<T>(r, 0, count);
          expected.insert(expected.end(), row.begin(), row.end());
        }
        std::vector<T> out(static_cast<size_t>(n * count));
        group.all_gather(in.data(), out.data(), count, DtypeOf<T>::value, "gather").wait();
        ASSERT_TRUE(same_bits(out, expected)) << n << " ranks, " << count;
        std::vector<T> place(static_cast<size_t>(n * count));
        std::copy(in.begin(), in.end(), place.begin() + me * count);
        group.all_gather(place.data() + me * count, place.data(), count, DtypeOf<T>::value, "in place")
            .wait();
        ASSERT_TRUE(same_bits(place, expected));
      }
    });
  }
}

TYPED_TEST(AllDtypes, AllToAll) {
  using T = TypeParam;
  for (int n = 1; n <= 8; ++n) {
    const auto groups = make_thread_groups(n, small_slots());
    run_ranks(groups, [&](Group& group) {
      const int me = group.rank();
      for (int64_t count : kCollectiveCounts) {
        const auto in = samples<T>(me, 0, n * count);
        std::vector<T> out(static_cast<size_t>(n * count));
        group.all_to_all(in.data(), out.data(), count, DtypeOf<T>::value, "rows").wait();
        ASSERT_TRUE(same_bits(out, rows_for<T>(me, n, count))) << n << " ranks, " << count;
      }
    });
  }
}

TEST(SingleGroup, AllToAllAndSharedMemory) {
  const auto world = make_single_world();
  Group* group = &world->all();
  const auto in = samples<float>(0, 0, 100);
  const auto memory = world->allocate(400);
  group->share(memory, 400, "out");
  auto* out = static_cast<float*>(static_cast<void*>(memory.get()));
  EXPECT_EQ(out[99], 0.0f);
  group->all_to_all(in.data(), out, 100, Dtype::f32, "x").wait();
  EXPECT_TRUE(same_bits(in, std::vector<float>(out, out + 100)));
}

TYPED_TEST(AllDtypes, Broadcast) {
  using T = TypeParam;
  for (int n = 1; n <= 8; ++n) {
    const auto groups = make_thread_groups(n, small_slots());
    run_ranks(groups, [&](Group& group) {
      for (int root = 0; root < n; ++root)
        for (int64_t count : kCollectiveCounts) {
          auto data = samples<T>(group.rank(), 0, count);
          group.broadcast(data.data(), count, DtypeOf<T>::value, root, "broadcast").wait();
          ASSERT_TRUE(same_bits(data, samples<T>(root, 0, count))) << n << " ranks, " << count;
        }
    });
  }
}

// Who holds which nodes does not change a bit of the sum.
TEST(AllReduceTree, SameBitsForAnyOwners) {
  for (int n = 1; n <= 8; ++n) {
    auto options = small_slots();
    options.slot_bytes = 2048;  // 31 nodes of 64 bytes
    const auto groups = make_thread_groups(n, options);
    run_ranks(groups, [&](Group& group) {
      for (int64_t leaves : {1, 2, 3, 5, 8, 13, 16, 31})
        for (int64_t count : {0, 1, 65, 300}) {
          const auto expected = node_sum({0, leaves}, leaves, count);
          std::vector<std::vector<float>> buffers;
          std::vector<TreeNode> nodes;
          const auto bring = [&](const std::vector<LeafRange>& ranges) {
            buffers.clear();
            nodes.clear();
            for (const auto& range : ranges) buffers.push_back(node_sum(range, leaves, count));
            for (size_t i = 0; i < ranges.size(); ++i)
              nodes.push_back({ranges[i].first, ranges[i].second, buffers[i].data()});
          };
          // Contiguous micro-batches (some ranks may hold none), result in a buffer of its own.
          const auto [first, last] = micro_batches_of_rank(leaves, n, group.rank());
          bring(cover_nodes(first, last, leaves));
          std::vector<float> result(static_cast<size_t>(count));
          group.all_reduce_tree(nodes, leaves, result.data(), count, "contiguous").wait();
          ASSERT_TRUE(same_bits(result, expected)) << n << " ranks, " << leaves << " leaves, " << count;
          // Interleaved single micro-batches, brought in reverse order, result in one of the nodes.
          std::vector<LeafRange> mine;
          for (int64_t g = leaves - 1; g >= 0; --g)
            if (g % n == group.rank()) mine.emplace_back(g, g + 1);
          bring(mine);
          float* into = nodes.empty() ? result.data() : nodes.back().data;
          group.all_reduce_tree(nodes, leaves, into, count, "interleaved").wait();
          ASSERT_TRUE(same_bits(std::vector<float>(into, into + count), expected));
        }
    });
  }
}

// The buffers of an unfinished bucket reduce while later ones are started: order and slots hold.
TEST(Collectives, ManyInFlight) {
  const int n = 3;
  const auto groups = make_thread_groups(n, small_slots());
  run_ranks(groups, [&](Group& group) {
    std::vector<std::vector<float>> buckets;
    std::vector<Work> works;
    for (int64_t b = 0; b < 50; ++b) buckets.push_back(samples<float>(group.rank(), b, 10 + 37 * b));
    for (auto& bucket : buckets)
      works.push_back(
          group.all_reduce(bucket.data(), static_cast<int64_t>(bucket.size()), Dtype::f32, "bucket"));
    group.barrier("all buckets");
    for (auto& work : works) {
      EXPECT_TRUE(work.done());  // collectives finish in order
      work.wait();
    }
    for (int64_t b = 0; b < 50; ++b)
      ASSERT_TRUE(same_bits(buckets[static_cast<size_t>(b)], serial_sums<float>(n, b, 10 + 37 * b)));
  });
}

TEST(Collectives, DroppedWorkIsFinished) {
  const auto groups = make_thread_groups(2, small_slots());
  run_ranks(groups, [&](Group& group) {
    auto data = samples<float>(group.rank(), 0, 500);
    { const Work dropped = group.all_reduce(data.data(), 500, Dtype::f32, "dropped"); }
    ASSERT_TRUE(same_bits(data, serial_sums<float>(2, 0, 500)));
  });
}

TEST(Collectives, WorkOutlivesItsGroup) {
  auto groups = make_thread_groups(2, small_slots());
  std::vector<float> a = samples<float>(0, 0, 500), b = samples<float>(1, 0, 500);
  Work first = groups[0]->all_reduce(a.data(), 500, Dtype::f32, "x");
  Work second = groups[1]->all_reduce(b.data(), 500, Dtype::f32, "x");
  groups.clear();
  EXPECT_TRUE(first.done());
  first.wait();
  second.wait();
  EXPECT_TRUE(same_bits(a, serial_sums<float>(2, 0, 500)));
  EXPECT_TRUE(same_bits(b, a));
}

TEST(Collectives, DefaultSlotsMoveMegabytes) {
  const int n = 4;
  const int64_t count = (1 << 20) + 13;
  const auto groups = make_thread_groups(n);
  run_ranks(groups, [&](Group& group) {
    std::vector<float> data(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i)
      data[static_cast<size_t>(i)] = static_cast<float>((i + group.rank()) % 1000);
    group.all_reduce(data.data(), count, Dtype::f32, "large").wait();
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; ++i) {
      float expected = 0;
      for (int r = 0; r < n; ++r) expected += static_cast<float>((i + r) % 1000);
      wrong += data[static_cast<size_t>(i)] != expected ? 1 : 0;
    }
    ASSERT_EQ(wrong, 0);
  });
}

TEST(Collectives, WrongArgumentsThrowAtTheCall) {
  for (int n : {1, 2}) {
    auto groups = make_thread_groups(n, small_slots());
    groups.push_back(make_single_group());
    for (const auto& group : groups) {
      float x[4] = {};
      EXPECT_THROW(group->all_reduce(x, -1, Dtype::f32, "x").wait(), Error);
      EXPECT_THROW(group->all_reduce(nullptr, 1, Dtype::f32, "x").wait(), Error);
      EXPECT_THROW(group->all_reduce(x, 1, Dtype::f16, "x").wait(), Error);
      EXPECT_THROW(group->all_reduce(x, 1, Dtype::u8, "x").wait(), Error);
      EXPECT_THROW(group->all_reduce(x, INT64_MAX, Dtype::f32, "x").wait(), Error);
      EXPECT_THROW(group->reduce_scatter(x, nullptr, 1, Dtype::f32, "x").wait(), Error);
      EXPECT_THROW(group->all_gather(nullptr, x, 1, Dtype::u8, "x").wait(), Error);
      EXPECT_THROW(group->all_to_all(x, nullptr, 1, Dtype::u8, "x").wait(), Error);
      EXPECT_THROW(group->all_to_all(x, x, -1, Dtype::u8, "x").wait(), Error);
      EXPECT_THROW(group->share(nullptr, SIZE_MAX, "x"), Error);
      EXPECT_THROW(group->broadcast(x, 1, Dtype::f32, group->size(), "x").wait(), Error);
      EXPECT_THROW(group->broadcast(x, 1, Dtype::f32, -1, "x").wait(), Error);
      EXPECT_THROW(group->all_reduce_tree({{0, 1, nullptr}}, 1, x, 1, "x").wait(), Error);
      EXPECT_THROW(group->all_reduce_tree({{0, 1, x}}, 0, x, 1, "x").wait(), Error);
    }
  }
  EXPECT_THROW(make_thread_groups(0), Error);
  GroupOptions odd;
  odd.slot_bytes = 100;
  EXPECT_THROW(make_thread_groups(2, odd), Error);
}

}  // namespace
}  // namespace athanor::tests::collectives_test
