// The counters of a group against the formulas of docs/collectives.md, written out again here.
#include "athanor/comm/traffic.h"

#include <gtest/gtest.h>

#include "athanor/comm/group.h"
#include "athanor/comm/null.h"
#include "athanor/comm/shm/thread.h"
#include "comm/reference.h"

namespace athanor::tests::traffic_test {
namespace {

constexpr int64_t kFloat = 4;

// One call of everything with `count` elements; all_to_all_v sends rank + to elements to rank `to`.
void call_everything(Group& group, int64_t count, int root) {
  const int n = group.size(), me = group.rank();
  std::vector<float> a(static_cast<size_t>(n * count + 2 * n * n + 1)), b(a.size());
  group.all_reduce(a.data(), count, Dtype::f32, "x").wait();
  group.all_reduce_tree({{me, me + 1, a.data()}}, n, b.data(), count, "x").wait();
  group.all_gather(a.data(), b.data(), count, Dtype::f32, "x").wait();
  group.reduce_scatter(a.data(), b.data(), count, Dtype::f32, "x").wait();
  group.all_to_all(a.data(), b.data(), count, Dtype::f32, "x").wait();
  std::vector<int64_t> sends, recvs;
  for (int r = 0; r < n; ++r) {
    sends.push_back(me + r);
    recvs.push_back(r + me);
  }
  group.all_to_all_v(a.data(), sends, b.data(), recvs, Dtype::f32, "x").wait();
  group.broadcast(a.data(), count, Dtype::f32, root, "x").wait();
  group.reduce(a.data(), b.data(), count, Dtype::f32, root, "x").wait();
  group.gather(a.data(), b.data(), count, Dtype::f32, root, "x").wait();
  group.scatter(a.data(), b.data(), count, Dtype::f32, root, "x").wait();
  Work send = group.send(a.data(), count, Dtype::f32, (me + 1) % n, "x");
  group.recv(b.data(), count, Dtype::f32, (me + n - 1) % n, "x").wait();
  send.wait();
  group.barrier("x");
}

void expect_formulas(const Traffic& traffic, int me, int n, int64_t count, int root) {
  const int64_t bytes = count * kFloat;
  const int64_t part = (count / n + (me < count % n ? 1 : 0)) * kFloat;
  const auto of = [&](Collective operation) { return traffic.of(operation).bytes; };
  EXPECT_EQ(of(Collective::all_reduce), bytes - part + (n - 1) * part);
  if (count % n == 0) {
    EXPECT_EQ(of(Collective::all_reduce), 2 * (n - 1) * bytes / n);
  }
  EXPECT_EQ(of(Collective::all_reduce_tree), bytes - part + (n - 1) * part);
  EXPECT_EQ(of(Collective::all_gather), (n - 1) * bytes);
  EXPECT_EQ(of(Collective::reduce_scatter), (n - 1) * bytes);
  EXPECT_EQ(of(Collective::all_to_all), (n - 1) * bytes);
  int64_t rows = 0;
  for (int r = 0; r < n; ++r) rows += r == me ? 0 : me + r;
  EXPECT_EQ(of(Collective::all_to_all_v), rows * kFloat);
  EXPECT_EQ(of(Collective::broadcast), me == root ? (n - 1) * bytes : 0);
  EXPECT_EQ(of(Collective::scatter), me == root ? (n - 1) * bytes : 0);
  EXPECT_EQ(of(Collective::reduce), me == root ? 0 : bytes);
  EXPECT_EQ(of(Collective::gather), me == root ? 0 : bytes);
  EXPECT_EQ(of(Collective::send), n == 1 ? 0 : bytes);
  for (const auto operation : {Collective::recv, Collective::barrier, Collective::share})
    EXPECT_EQ(of(operation), 0);
  for (int i = 0; i < kNumCollectives; ++i) {
    const auto operation = static_cast<Collective>(i);
    EXPECT_EQ(traffic.of(operation).calls, operation == Collective::share ? 0 : 1) << name_of(operation);
  }
}

TEST(Traffic, IsTheFormulas) {
  for (int n = 1; n <= 5; ++n)
    for (int64_t count : {0, 1, 4, 60, 257, 1001}) {
      const auto groups = make_thread_groups(n, small_slots());
      const int root = n / 2;
      run_ranks(groups, [&](Group& group) {
        call_everything(group, count, root);
        expect_formulas(group.traffic(), group.rank(), n, count, root);
      });
      int64_t sum = 0;
      for (const auto& group : groups) sum += group->traffic().of(Collective::all_reduce).bytes;
      EXPECT_EQ(sum, 2 * (n - 1) * count * kFloat);
    }
}

TEST(Traffic, IsTheSameInPlace) {
  const int n = 3;
  const int64_t count = 30'001;
  const auto groups = make_thread_groups(n, small_slots());
  run_ranks(groups, [&](Group& group) {
    const auto memory = share_bytes(group, static_cast<size_t>(n * count) * kFloat);
    auto* data = static_cast<float*>(static_cast<void*>(memory.get()));
    std::vector<float> out(static_cast<size_t>(n * count));
    group.all_reduce(data, count, Dtype::f32, "x").wait();
    group.all_gather(data, out.data(), count, Dtype::f32, "x").wait();
    const int64_t part = (count / n + (group.rank() < count % n ? 1 : 0)) * kFloat;
    EXPECT_EQ(group.traffic().of(Collective::all_reduce).bytes, count * kFloat - part + 2 * part);
    EXPECT_EQ(group.traffic().of(Collective::all_gather).bytes, 2 * count * kFloat);
  });
}

TEST(Traffic, OfOneRankAndOfAPlan) {
  const auto single = make_single_group();
  call_everything(*single, 10, 0);
  expect_formulas(single->traffic(), 0, 1, 10, 0);
  EXPECT_EQ(single->traffic().total().bytes, 0);
  for (int rank = 0; rank < 3; ++rank) {
    const auto planned = make_null_world(rank, 3);
    call_everything(planned->all(), 257, 1);
    expect_formulas(planned->all().traffic(), rank, 3, 257, 1);
  }
}

TEST(Traffic, DifferencesAndSums) {
  Traffic before;
  before.add(Collective::send, 10);
  Traffic after = before;
  after.add(Collective::send, 5);
  after.add(Collective::barrier, 0);
  const Traffic step = after - before;
  EXPECT_EQ(step.of(Collective::send).bytes, 5);
  EXPECT_EQ(step.of(Collective::send).calls, 1);
  EXPECT_EQ(step.total().calls, 2);
  Traffic sum = before;
  sum += step;
  EXPECT_EQ(sum, after);
}

TEST(Traffic, EvenPartsAddUp) {
  for (int n = 1; n <= 5; ++n)
    for (int64_t count : {0, 1, 4, 5, 13}) {
      int64_t sum = 0;
      for (int r = 0; r < n; ++r) sum += even_part(count, n, r);
      EXPECT_EQ(sum, count);
    }
}

}  // namespace
}  // namespace athanor::tests::traffic_test
