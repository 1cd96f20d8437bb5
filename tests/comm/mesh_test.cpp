// Who is whose neighbour: every shape of up to 8 ranks against the definition, and groups that really talk.
#include "athanor/comm/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "athanor/base/error.h"
#include "athanor/comm/null.h"
#include "athanor/comm/shm/thread.h"
#include "comm/forked.h"

namespace athanor::tests::mesh_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::vector<MeshShape> shapes_of(int ranks) {
  std::vector<MeshShape> shapes;
  for (int pp = 1; pp <= ranks; ++pp)
    for (int dp = 1; pp * dp <= ranks; ++dp)
      for (int cp = 1; pp * dp * cp <= ranks; ++cp)
        for (int tp = 1; pp * dp * cp * tp <= ranks; ++tp)
          for (int ep = 1; ep <= dp * cp * tp; ++ep)
            if (MeshShape shape{pp, dp, cp, tp, ep}; shape.problem(ranks).empty()) shapes.push_back(shape);
  return shapes;
}

TEST(MeshShape, TpIsTheFastestAxisAndEpFoldsAStage) {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (const MeshShape& shape : shapes_of(ranks))
      for (int rank = 0; rank < ranks; ++rank) {
        const auto at = [&](Axis axis) { return shape.coordinate(rank, axis); };
        EXPECT_EQ(rank, ((at(Axis::pp) * shape.dp + at(Axis::dp)) * shape.cp + at(Axis::cp)) * shape.tp +
                            at(Axis::tp));
        if (shape.ep % shape.tp == 0 || shape.tp % shape.ep == 0) {
          EXPECT_EQ(rank, (at(Axis::pp) * shape.size(Axis::edp) + at(Axis::edp)) * shape.ep + at(Axis::ep));
        }
        EXPECT_THAT(shape.peers(rank, {Axis::pp, Axis::ep, Axis::edp}), SizeIs(ranks));
        EXPECT_EQ(shape.peers(rank, {Axis::ep})[static_cast<size_t>(at(Axis::ep))], rank);
        EXPECT_EQ(shape.peers(rank, {Axis::edp})[static_cast<size_t>(at(Axis::edp))], rank);
        for (const Axis axis : {Axis::pp, Axis::dp, Axis::cp, Axis::tp, Axis::ep, Axis::edp})
          EXPECT_LT(at(axis), shape.size(axis));
      }
}

// The ranks of a tp group share out the tokens of layers of experts: their ep groups must bring together those of the
// same micro-batches.
TEST(MeshShape, RanksOfATpGroupMeetTheSameTokensInTheirEpGroups) {
  for (int ranks = 1; ranks <= 24; ++ranks)
    for (const MeshShape& shape : shapes_of(ranks)) {
      const auto tokens_met = [&](int rank) {
        std::multiset<int> tokens;  // by rank of (dp, cp)
        for (const int peer : shape.peers(rank, {Axis::ep}))
          tokens.insert(shape.coordinate(peer, Axis::dp) * shape.cp + shape.coordinate(peer, Axis::cp));
        return tokens;
      };
      for (int rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(tokens_met(rank), tokens_met(rank / shape.tp * shape.tp))
            << shape.text() << ", rank " << rank;
    }
}

// Where there are such parts: neighbours in edp, and all ranks of their ep groups, compute the same micro-batches.
TEST(MeshShape, ExpertPartsAreOfTheSameMicroBatches) {
  for (int ranks = 1; ranks <= 24; ++ranks)
    for (const MeshShape& shape : shapes_of(ranks)) {
      const int parts = shape.expert_parts();
      bool crosses = false;
      for (int rank = 0; rank < ranks; ++rank)
        for (const int peer : shape.peers(rank, {Axis::ep}))
          crosses = crosses || shape.coordinate(peer, Axis::dp) != shape.coordinate(rank, Axis::dp);
      EXPECT_EQ(parts == 0, crosses) << shape.text();
      for (int rank = 0; rank < ranks && parts > 0; ++rank)
        EXPECT_EQ(shape.coordinate(rank, Axis::edp) / parts, shape.coordinate(rank, Axis::dp))
            << shape.text() << ", rank " << rank;
    }
  EXPECT_EQ((MeshShape{.dp = 2, .cp = 2, .tp = 2, .ep = 2}.expert_parts()), 2);
  EXPECT_EQ((MeshShape{.dp = 2, .tp = 2}.expert_parts()), 2);
  EXPECT_EQ((MeshShape{.dp = 2, .tp = 2, .ep = 4}.expert_parts()), 0);
}

TEST(MeshShape, Peers) {
  const MeshShape shape{.pp = 2, .dp = 2, .cp = 1, .tp = 2, .ep = 2};
  EXPECT_THAT(shape.peers(5, {Axis::tp}), ElementsAre(4, 5));
  EXPECT_THAT(shape.peers(5, {Axis::dp}), ElementsAre(5, 7));
  EXPECT_THAT(shape.peers(5, {Axis::pp}), ElementsAre(1, 5));
  EXPECT_THAT(shape.peers(5, {Axis::cp}), ElementsAre(5));
  EXPECT_THAT(shape.peers(5, {}), ElementsAre(5));
  EXPECT_THAT(shape.peers(5, {Axis::dp, Axis::cp, Axis::tp}), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(shape.peers(5, {Axis::pp, Axis::tp}), ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(shape.peers(5, {Axis::ep}), ElementsAre(4, 5));
  EXPECT_THAT(shape.peers(5, {Axis::edp}), ElementsAre(5, 7));
  EXPECT_THAT(shape.peers(5, {Axis::edp, Axis::pp}), ElementsAre(1, 3, 5, 7));
  EXPECT_THROW(shape.peers(5, {Axis::ep, Axis::tp}), Error);
}

TEST(MeshShape, Problems) {
  EXPECT_EQ(MeshShape{}.problem(1), "");
  EXPECT_EQ((MeshShape{.dp = 2, .tp = 2}.problem(8)), "pp * dp * cp * tp is 4, expected 8 ranks");
  EXPECT_EQ((MeshShape{.tp = 0}.problem(1)), "tp is 0, expected at least 1");
  EXPECT_EQ((MeshShape{.dp = 1 << 30, .tp = 1 << 30}.problem(4)),
            "dp is 1073741824, expected at most 4 ranks");
  EXPECT_EQ((MeshShape{.dp = 2, .tp = 3, .ep = 4}.problem(6)),
            "ep is 4, expected a divisor of dp * cp * tp = 6");
  EXPECT_EQ((MeshShape{.ep = 0}.problem(1)), "ep is 0, expected at least 1");
  EXPECT_EQ((MeshShape{.ep = 2}.problem(1)), "ep is 2, expected a divisor of dp * cp * tp = 1");
}

// Every shape: each axis' group gathers the ranks that the shape says, in their order.
TEST(Mesh, GroupsOfEveryShape) {
  GroupOptions options;
  options.slot_bytes = 1024;
  options.timeout_ms = 60'000;
  for (int ranks : {1, 2, 4, 6}) {
    const auto worlds = make_thread_worlds(ranks, options);
    for (const MeshShape& shape : shapes_of(ranks))
      run_ranks(worlds, [&](World& world) {
        Mesh mesh(shape, world);
        const auto meets_its_peers = [&](std::initializer_list<Axis> axes) {
          Group& group = mesh.group(axes);
          EXPECT_EQ(&group, &mesh.group(axes));
          const auto expected = shape.peers(world.rank(), axes);
          std::vector<int32_t> got(static_cast<size_t>(group.size()));
          const int32_t me = world.rank();
          group.all_gather(&me, got.data(), 1, Dtype::i32, "who").wait();
          EXPECT_EQ(got, expected) << shape.text();
        };
        meets_its_peers({Axis::tp});
        meets_its_peers({Axis::pp});
        meets_its_peers({Axis::dp, Axis::cp});
        meets_its_peers({Axis::ep});
        meets_its_peers({Axis::edp});
        meets_its_peers({Axis::cp, Axis::dp, Axis::tp});
        meets_its_peers({});
        EXPECT_EQ(&mesh.group({Axis::dp, Axis::cp}), &mesh.group({Axis::cp, Axis::dp, Axis::dp}));
        EXPECT_EQ(mesh.group(Axis::tp).rank(), mesh.coordinate(Axis::tp));
        EXPECT_EQ(mesh.group({Axis::dp, Axis::cp}).rank(),
                  mesh.coordinate(Axis::dp) * mesh.size(Axis::cp) + mesh.coordinate(Axis::cp));
      });
  }
}

TEST(Mesh, ARankWithAnotherShapeIsNamed) {
  const auto worlds = make_thread_worlds(4);
  const auto texts = outcomes_of_ranks(worlds, [](World& world) {
    const MeshShape shape = world.rank() == 2 ? MeshShape{.dp = 2, .tp = 2} : MeshShape{.dp = 4};
    const Mesh mesh(shape, world);
  });
  // Which of the other three have come by then is chance.
  EXPECT_THAT(texts, Each(AllOf(HasSubstr("Error: "),
                                HasSubstr("rank 2 called barrier(\"mesh pp=1 dp=2 cp=1 tp=2 ep=1\")"),
                                HasSubstr(" called barrier(\"mesh pp=1 dp=4 cp=1 tp=1 ep=1\")"))));
}

TEST(Mesh, NamesItsGroupsByAxesAndRanks) {
  const auto world = make_null_world(5, 8);
  Mesh mesh({.pp = 2, .dp = 2, .tp = 2}, *world);
  EXPECT_EQ(mesh.group(Axis::tp).name(), "tp of 4, 5");
  EXPECT_EQ(mesh.group({Axis::tp, Axis::cp, Axis::dp}).name(), "dp x tp of 4-7");
  EXPECT_EQ(mesh.group(Axis::cp).name(), "one rank of 5");
  float x[4] = {};
  mesh.group(Axis::tp).all_reduce(x, 4, Dtype::f32, "x").wait();
  mesh.group(Axis::pp).send(x, 4, Dtype::f32, 0, "x").wait();
  EXPECT_EQ(mesh.traffic().total().bytes, 32);
  EXPECT_THROW(Mesh({.dp = 3}, *world), Error);
}

TEST(Mesh, RanksBeyondItHaveNoGroups) {
  const auto inside = make_null_world(1, 6), beyond = make_null_world(5, 6);
  Mesh mesh({.dp = 2, .cp = 2}, *inside, 2);
  EXPECT_EQ(mesh.group({Axis::dp, Axis::cp}).name(), "dp x cp of 0-3");
  EXPECT_EQ(mesh.group(Axis::cp).name(), "cp of 0, 1");
  Mesh of_another({.dp = 2, .cp = 2}, *beyond, 2);
  EXPECT_THROW(of_another.group(Axis::cp), Error);
  EXPECT_THROW(Mesh({.dp = 2, .cp = 2}, *inside, 1), Error);
}

}  // namespace
}  // namespace athanor::tests::mesh_test
