// reduce, gather, scatter and all_to_all_v against serial references, bit for bit, in groups of 1 to 8 ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "athanor/base/error.h"
#include "athanor/comm/exchange.h"
#include "athanor/comm/shm/thread.h"
#include "comm/reference.h"

namespace athanor::tests::rows_test {
namespace {

const std::vector<int64_t> kRowCounts = {0, 1, 7, 64, 257, 1500};

template <typename T>
class Reduce : public ::testing::Test {};
TYPED_TEST_SUITE(Reduce, SumTypes);

TYPED_TEST(Reduce, ToEveryRoot) {
  using T = TypeParam;
  for (int n = 1; n <= 8; ++n) {
    const auto groups = make_thread_groups(n, small_slots());
    run_ranks(groups, [&](Group& group) {
      for (int root = 0; root < n; ++root)
        for (int64_t count : kRowCounts) {
          auto in = samples<T>(group.rank(), 0, count);
          std::vector<T> out(static_cast<size_t>(count));
          const bool here = group.rank() == root;
          group.reduce(in.data(), here ? out.data() : nullptr, count, DtypeOf<T>::value, root, "sum").wait();
          ASSERT_TRUE(same_bits(in, samples<T>(group.rank(), 0, count)));
          if (here) {
            ASSERT_TRUE(same_bits(out, serial_sums<T>(n, 0, count))) << n << " ranks, " << count;
          }
          // In place on the root.
          group.reduce(in.data(), here ? in.data() : nullptr, count, DtypeOf<T>::value, root, "own").wait();
          if (here) {
            ASSERT_TRUE(same_bits(in, out));
          }
        }
    });
  }
}

template <typename T>
class Rows : public ::testing::Test {};
TYPED_TEST_SUITE(Rows, AllTypes);

TYPED_TEST(Rows, GatherToEveryRoot) {
  using T = TypeParam;
  for (int n = 1; n <= 8; ++n) {
    const auto groups = make_thread_groups(n, small_slots());
    run_ranks(groups, [&](Group& group) {
      for (int root = 0; root < n; ++root)
        for (int64_t count : kRowCounts) {
          const auto in = samples<T>(group.rank(), 0, count);
          std::vector<T> out(static_cast<size_t>(n * count)), expected;
          for (int r = 0; r < n; ++r) {
            const auto row = samples<T>(r, 0, count);
            expected.insert(expected.end(), row.begin(), row.end());
          }
          const bool here = group.rank() == root;
          group.gather(in.data(), here ? out.data() : nullptr, count, DtypeOf<T>::value, root, "rows").wait();
          if (here) {
            ASSERT_TRUE(same_bits(out, expected)) << n << " ranks, " << count;
          }
          std::vector<T> place(static_cast<size_t>(n * count));
          std::copy(in.begin(), in.end(), place.begin() + group.rank() * count);
          group
              .gather(place.data() + group.rank() * count, place.data(), count, DtypeOf<T>::value, root,
                      "own")
              .wait();
          if (here) {
            ASSERT_TRUE(same_bits(place, expected));
          }
        }
    });
  }
}

TYPED_TEST(Rows, ScatterFromEveryRoot) {
  using T = TypeParam;
  for (int n = 1; n <= 8; ++n) {
    const auto groups = make_thread_groups(n, small_slots());
    run_ranks(groups, [&](Group& group) {
      for (int root = 0; root < n; ++root)
        for (int64_t count : kRowCounts) {
          auto in = samples<T>(root, 0, n * count);
          std::vector<T> out(static_cast<size_t>(count));
          const bool here = group.rank() == root;
          group.scatter(here ? in.data() : nullptr, out.data(), count, DtypeOf<T>::value, root, "rows")
              .wait();
          const auto expected = samples<T>(root, group.rank() * count, count);
          ASSERT_TRUE(same_bits(out, expected)) << n << " ranks, " << count;
          T* row = here ? in.data() + root * count : out.data();
          group.scatter(here ? in.data() : nullptr, row, count, DtypeOf<T>::value, root, "own").wait();
          ASSERT_TRUE(same_bits(std::vector<T>(row, row + count), expected));
        }
    });
  }
}

// How many elements go from one rank to another: none, few, and now and then many.
int64_t uneven(int from, int to, int round) {
  const int64_t mix = (from * 7 + to * 3 + round * 5) % 11;
  return mix < 4 ? 0 : mix == 10 ? 1500 + 13 * from + to : mix * 17 + from;
}

TYPED_TEST(Rows, AllToAllV) {
  using T = TypeParam;
  for (int n = 1; n <= 8; ++n) {
    const auto groups = make_thread_groups(n, small_slots());
    run_ranks(groups, [&](Group& group) {
      const int me = group.rank();
      for (int round = 0; round < 6; ++round) {
        std::vector<int64_t> sends, recvs;
        std::vector<T> in, expected;
        for (int r = 0; r < n; ++r) {
          sends.push_back(uneven(me, r, round));
          recvs.push_back(uneven(r, me, round));
          const auto to = samples<T>(me, r * 100, sends.back()), from = samples<T>(r, me * 100, recvs.back());
          in.insert(in.end(), to.begin(), to.end());
          expected.insert(expected.end(), from.begin(), from.end());
        }
        std::vector<T> out(expected.size());
        group.all_to_all_v(in.data(), sends, out.data(), recvs, DtypeOf<T>::value, "uneven").wait();
        ASSERT_TRUE(same_bits(out, expected)) << n << " ranks, round " << round;
      }
    });
  }
}

TEST(AllToAllV, NothingAtAllAndOneRankToOneOther) {
  const auto groups = make_thread_groups(3, small_slots());
  run_ranks(groups, [&](Group& group) {
    const std::vector<int64_t> none(3, 0);
    group.all_to_all_v(nullptr, none, nullptr, none, Dtype::f32, "none").wait();
    std::vector<int64_t> sends(3, 0), recvs(3, 0);
    const auto data = samples<float>(2, 0, 5000);
    std::vector<float> out(5000);
    if (group.rank() == 2) sends[0] = 5000;
    if (group.rank() == 0) recvs[2] = 5000;
    group
        .all_to_all_v(group.rank() == 2 ? data.data() : nullptr, sends,
                      group.rank() == 0 ? out.data() : nullptr, recvs, Dtype::f32, "one")
        .wait();
    if (group.rank() == 0) {
      EXPECT_TRUE(same_bits(out, data));
    }
  });
}

// From shared buffers, and with one buffer that is not.
TEST(SharedBuffers, SameBitsInPlace) {
  for (int n : {2, 3, 5}) {
    const auto groups = make_thread_groups(n, small_slots());
    run_ranks(groups, [&](Group& group) {
      const int me = group.rank();
      const int64_t count = 9000 + 17;
      const auto bytes = static_cast<size_t>(n * count) * sizeof(float);
      const auto memory = share_bytes(group, bytes);
      auto* shared = static_cast<float*>(static_cast<void*>(memory.get()));
      auto in = samples<float>(me, 0, n * count);
      std::copy(in.begin(), in.end(), shared);
      for (const bool all : {true, false}) {
        float* from = all || me != 1 ? shared : in.data();
        std::vector<float> out(static_cast<size_t>(n * count));
        group.reduce(from, out.data(), count, Dtype::f32, 1, "reduce").wait();
        if (me == 1) {
          out.resize(static_cast<size_t>(count));
          ASSERT_TRUE(same_bits(out, serial_sums<float>(n, 0, count)));
          out.resize(static_cast<size_t>(n * count));
        }
        group.gather(from, out.data(), count, Dtype::f32, 0, "gather").wait();
        for (int r = 0; me == 0 && r < n; ++r) {
          const std::vector<float> row(out.begin() + r * count, out.begin() + (r + 1) * count);
          ASSERT_TRUE(same_bits(row, samples<float>(r, 0, count)));
        }
        out.assign(static_cast<size_t>(count), 0);
        group.scatter(from, out.data(), count, Dtype::f32, 1, "scatter").wait();
        ASSERT_TRUE(same_bits(out, samples<float>(1, me * count, count)));
        std::vector<int64_t> sends, recvs;
        std::vector<float> expected;
        int64_t offset_of_me = 0;
        for (int r = 0; r < n; ++r) {
          sends.push_back(8000 + 10 * r + me);
          recvs.push_back(8000 + 10 * me + r);
          offset_of_me = 0;
          for (int s = 0; s < me; ++s) offset_of_me += 8000 + 10 * s + r;
          const auto row = samples<float>(r, offset_of_me, recvs.back());
          expected.insert(expected.end(), row.begin(), row.end());
        }
        out.assign(expected.size(), 0);
        group.all_to_all_v(from, sends, out.data(), recvs, Dtype::f32, "v").wait();
        ASSERT_TRUE(same_bits(out, expected));
      }
    });
  }
}

TEST(Exchange, Offsets) {
  const Exchange rows(3, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(rows.count(1, 2), 6);
  EXPECT_EQ(rows.in_offset(1, 2), 9);
  EXPECT_EQ(rows.out_offset(1, 2), 3);
  EXPECT_EQ(rows.stream_offset(1, 2), 4);
  EXPECT_EQ(rows.stream_offset(1, 0), 0);
  EXPECT_EQ(rows.stream_length(1), 10);
  EXPECT_EQ(rows.longest_stream(), 15);
}

TEST(Rows, WrongArgumentsThrowAtTheCall) {
  for (int n : {1, 2}) {
    const auto groups = make_thread_groups(n, small_slots());
    const auto single = make_single_group();
    for (Group* group : {groups[0].get(), single.get()}) {
      float x[4] = {};
      const auto size = static_cast<size_t>(group->size());
      const std::vector<int64_t> ones(size, 1), wrong(size + 1, 0), negative(size, -1),
          huge(size, INT64_MAX / 2);
      EXPECT_THROW(group->reduce(x, x + 1, 1, Dtype::u8, 0, "x").wait(), Error);
      EXPECT_THROW(group->reduce(x, x + 1, 1, Dtype::f32, group->size(), "x").wait(), Error);
      EXPECT_THROW(group->reduce(x, nullptr, 1, Dtype::f32, 0, "x").wait(), Error);
      EXPECT_THROW(group->gather(nullptr, x, 1, Dtype::f32, 0, "x").wait(), Error);
      EXPECT_THROW(group->gather(x, nullptr, 1, Dtype::f32, 0, "x").wait(), Error);
      EXPECT_THROW(group->gather(x, x, -1, Dtype::f32, 0, "x").wait(), Error);
      EXPECT_THROW(group->scatter(nullptr, x, 1, Dtype::f32, 0, "x").wait(), Error);
      EXPECT_THROW(group->scatter(x, nullptr, 1, Dtype::f32, 0, "x").wait(), Error);
      EXPECT_THROW(group->scatter(x, x, 1, Dtype::f32, -1, "x").wait(), Error);
      EXPECT_THROW(group->all_to_all_v(x, wrong, x, ones, Dtype::f32, "x").wait(), Error);
      EXPECT_THROW(group->all_to_all_v(x, ones, x, wrong, Dtype::f32, "x").wait(), Error);
      EXPECT_THROW(group->all_to_all_v(x, negative, x, ones, Dtype::f32, "x").wait(), Error);
      EXPECT_THROW(group->all_to_all_v(x, huge, x, ones, Dtype::f32, "x").wait(), Error);
      EXPECT_THROW(group->all_to_all_v(nullptr, ones, x, ones, Dtype::f32, "x").wait(), Error);
      EXPECT_THROW(group->send(x, 1, Dtype::f32, group->size(), "x").wait(), Error);
      EXPECT_THROW(group->send(nullptr, 1, Dtype::f32, 0, "x").wait(), Error);
      EXPECT_THROW(group->recv(x, -1, Dtype::f32, 0, "x").wait(), Error);
      EXPECT_THROW(group->recv(x, 1, Dtype::f32, -1, "x").wait(), Error);
    }
  }
}

}  // namespace
}  // namespace athanor::tests::rows_test
