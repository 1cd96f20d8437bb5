// Who is whose neighbour: shapes of up to 8 ranks against the definition, and groups that really talk.
#include "athanor/comm/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

std::vector<MeshShape> shapes_of(int ranks) {
  std::vector<MeshShape> shapes;
  for (int a = 1; a <= ranks; ++a)
    for (int b = 1; a * b <= ranks; ++b)
      for (int c = 1; a * b * c <= ranks; ++c)
        if (a * b * c == ranks) shapes.emplace_back(std::vector<MeshAxis>{{"a", a}, {"b", b}, {"c", c}});
  return shapes;
}

TEST(MeshShape, TheLastAxisIsTheFastest) {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (const MeshShape& shape : shapes_of(ranks))
      for (int rank = 0; rank < ranks; ++rank) {
        const auto at = [&](const char* axis) { return shape.coordinate(rank, axis); };
        EXPECT_EQ(rank, (at("a") * shape.size("b") + at("b")) * shape.size("c") + at("c"));
        for (const char* axis : {"a", "b", "c"}) EXPECT_LT(at(axis), shape.size(axis));
        EXPECT_EQ(shape.peers(rank, {"b"})[static_cast<size_t>(at("b"))], rank);
        EXPECT_EQ(std::ssize(shape.peers(rank, {"c", "a", "b"})), ranks);
      }
}

TEST(MeshShape, Peers) {
  const MeshShape shape({{"pp", 2}, {"dp", 2}, {"cp", 1}, {"tp", 2}});
  EXPECT_THAT(shape.peers(5, {"tp"}), ElementsAre(4, 5));
  EXPECT_THAT(shape.peers(5, {"dp"}), ElementsAre(5, 7));
  EXPECT_THAT(shape.peers(5, {"pp"}), ElementsAre(1, 5));
  EXPECT_THAT(shape.peers(5, {"cp"}), ElementsAre(5));
  EXPECT_THAT(shape.peers(5, {}), ElementsAre(5));
  EXPECT_THAT(shape.peers(5, {"dp", "cp", "tp"}), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(shape.peers(5, {"pp", "tp"}), ElementsAre(0, 1, 4, 5));
  EXPECT_EQ(shape.text(), "pp=2 dp=2 cp=1 tp=2");
  EXPECT_EQ(shape.text_of({"tp", "cp", "dp"}), "dp x tp");
}

TEST(MeshShape, WrongOnesAreRefused) {
  EXPECT_THROW(MeshShape({{"tp", 0}}), Error);
  EXPECT_THROW(MeshShape({{"tp", 2}, {"tp", 2}}), Error);
  EXPECT_THROW(MeshShape({{"dp", 1 << 30}, {"tp", 1 << 30}}), Error);
  const MeshShape shape({{"tp", 2}});
  EXPECT_THROW(shape.size("dp"), Error);
  EXPECT_THROW(shape.coordinate(0, "dp"), Error);
  EXPECT_THROW(shape.peers(0, {"tp", "dp"}), Error);
}

// Every shape: each group gathers the ranks that the shape says, in their order.
TEST(Mesh, GroupsOfEveryShape) {
  GroupOptions options;
  options.slot_bytes = 1024;
  options.timeout_ms = 600'000;
  for (int ranks : {1, 2, 4, 6}) {
    const auto worlds = make_thread_worlds(ranks, options);
    for (const MeshShape& shape : shapes_of(ranks))
      run_ranks(worlds, [&](World& world) {
        Mesh mesh(shape, world);
        for (const AxisNames& axes :
             {AxisNames{"a"}, {"b"}, {"c"}, {"a", "b"}, {"c", "a"}, {"a", "b", "c"}, {}}) {
          Group& group = mesh.group(axes);
          EXPECT_EQ(&group, &mesh.group(axes));
          const auto expected = shape.peers(world.rank(), axes);
          std::vector<int32_t> got(static_cast<size_t>(group.size()));
          const int32_t me = world.rank();
          group.all_gather(&me, got.data(), 1, Dtype::i32, "who").wait();
          EXPECT_EQ(got, expected) << shape.text();
        }
        EXPECT_EQ(&mesh.group({"a", "b"}), &mesh.group({"b", "a", "a"}));
        EXPECT_EQ(mesh.group({"c"}).rank(), mesh.coordinate("c"));
      });
  }
}

TEST(Mesh, ARankWithAnotherShapeIsNamed) {
  const auto worlds = make_thread_worlds(4);
  const auto texts = outcomes_of_ranks(worlds, [](World& world) {
    const bool other = world.rank() == 2;
    const Mesh mesh(MeshShape({{"dp", other ? 2 : 4}, {"tp", other ? 2 : 1}}), world);
  });
  // Which of the other three have come by then is chance.
  EXPECT_THAT(texts, Each(AllOf(HasSubstr("Error: "), HasSubstr("rank 2 called barrier(\"mesh dp=2 tp=2\")"),
                                HasSubstr(" called barrier(\"mesh dp=4 tp=1\")"))));
}

TEST(Mesh, NamesItsGroupsByAxesAndRanks) {
  const auto world = make_null_world(5, 8);
  Mesh mesh(MeshShape({{"pp", 2}, {"dp", 2}, {"cp", 1}, {"tp", 2}}), *world);
  EXPECT_EQ(mesh.group({"tp"}).name(), "tp of 4, 5");
  EXPECT_EQ(mesh.group({"tp", "cp", "dp"}).name(), "dp x tp of 4-7");
  EXPECT_EQ(mesh.group({"cp"}).name(), "one rank of 5");
}

TEST(Mesh, RanksBeyondItHaveNoGroups) {
  const MeshShape four({{"dp", 2}, {"cp", 2}});
  const auto inside = make_null_world(1, 6), beyond = make_null_world(5, 6);
  Mesh mesh(four, *inside);
  EXPECT_EQ(mesh.group({"dp", "cp"}).name(), "dp x cp of 0-3");
  EXPECT_EQ(mesh.group({"cp"}).name(), "cp of 0, 1");
  Mesh of_another(four, *beyond);
  EXPECT_THROW(of_another.group({"cp"}), Error);
  EXPECT_THROW(Mesh(MeshShape({{"dp", 7}}), *inside), Error);
}

}  // namespace
}  // namespace athanor::tests::mesh_test
