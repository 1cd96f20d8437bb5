// Law 4: any cut of the tensors over ranks writes the same checkpoint, and any cut reads it.
#include <gtest/gtest.h>

#include "athanor/checkpoint/checkpoint.h"
#include "checkpoint/content.h"

namespace athanor::tests::slices_test {
namespace {

constexpr int64_t kRows = 7, kColumns = 6;

Tensor cut(Engine& engine, const Tensor& whole, const Box& box) {
  Tensor part = empty(engine.arena, box.extent, Dtype::f32, Category::activations);
  BoxRuns(whole.shape(), box).walk(0, part.numel(), [&](int64_t in_box, int64_t in_whole, int64_t count) {
    std::copy_n(whole.data<float>() + in_whole, count, part.data<float>() + in_box);
  });
  return part;
}

struct Whole {
  explicit Whole(Engine& engine)
      : rows(engine.random({kRows, kColumns}, "rows")),
        columns(engine.random({4, kRows, kColumns}, "columns")),
        shared(engine.random({33}, "shared")) {}
  Tensor rows, columns, shared;
};

// Rows in equal parts, the last ones shorter or empty; columns of `columns` in halves; `shared` on every
// rank.
std::vector<NamedTensor> slices(Engine& engine, const Whole& whole, int rank, int ranks) {
  const int64_t part = (kRows + ranks - 1) / ranks;
  const int64_t first = std::min<int64_t>(kRows, rank * part), last = std::min(kRows, first + part);
  const Box rows{{first, 0}, {last - first, kColumns}};
  const int64_t halves = ranks == 1 ? 1 : 2;
  const Box columns{{0, 0, rank % halves * kColumns / halves}, {4, kRows, kColumns / halves}};
  return {{"rows", cut(engine, whole.rows, rows), whole.rows.shape(), rows.offset},
          {"columns", cut(engine, whole.columns, columns), whole.columns.shape(), columns.offset},
          {"shared", whole.shared}};
}

std::string save(const std::string& folder, int ranks) {
  const auto groups = make_thread_groups(ranks);
  std::string path;
  run_ranks(groups, [&](Group& group) {
    Engine engine;
    const Whole whole(engine);
    const std::string written = write_checkpoint(
        system_env(), group, folder,
        {.step = 3, .state = "{}", .tensors = slices(engine, whole, group.rank(), ranks), .files = {}});
    if (group.rank() == 0) path = written;
  });
  return path;
}

TEST(Slices, EveryCutWritesTheSameTensorsAndEveryCutReadsThem) {
  Engine engine;
  const Whole whole(engine);
  std::string digest;
  for (const int ranks : {1, 2, 3, 4, 8}) {
    const TestFolder folder;
    const Checkpoint checkpoint = Checkpoint::open(system_env(), save(folder.path(), ranks));
    checkpoint.verify();
    if (ranks == 1) digest = checkpoint.digest();
    EXPECT_EQ(checkpoint.digest(), digest) << ranks << " ranks";
    for (const int readers : {1, 2, 3, 5, 8})
      for (int rank = 0; rank < readers; ++rank)
        for (const NamedTensor& expected : slices(engine, whole, rank, readers)) {
          const Shape& extent = expected.tensor.shape();
          const bool is_whole = expected.offset.dims() == 0;
          std::vector<float> values(static_cast<size_t>(extent.numel()), 7.0f);
          checkpoint.read_box(expected.name, is_whole ? extent : expected.whole,
                              is_whole ? whole_box(extent) : Box{expected.offset, extent}, values.data());
          EXPECT_EQ(values, to_floats(expected.tensor))
              << expected.name << " of rank " << rank << " of " << readers << " written by " << ranks;
        }
  }
}

TEST(Slices, RanksThatHoldDifferentTensorsWriteThemAll) {
  const TestFolder folder;
  const auto groups = make_thread_groups(3);
  run_ranks(groups, [&](Group& group) {
    Engine engine;
    const Whole whole(engine);
    std::vector<NamedTensor> own;
    if (group.rank() == 0) own = {{"rows", whole.rows}};
    if (group.rank() == 2) own = {{"shared", whole.shared}, {"columns", whole.columns}};
    write_checkpoint(system_env(), group, folder.path(),
                     {.step = 3, .state = "{}", .tensors = own, .files = {}});
  });
  const Checkpoint checkpoint = Checkpoint::open(system_env(), folder.file("step_00000003"));
  checkpoint.verify();
  EXPECT_EQ(checkpoint.tensors().size(), 3u);
  const TestFolder other;
  EXPECT_EQ(checkpoint.digest(), Checkpoint::open(system_env(), save(other.path(), 1)).digest());
}

std::string refusal(const std::function<void(int, std::vector<NamedTensor>&)>& change) {
  const TestFolder folder;
  const auto groups = make_thread_groups(2);
  std::vector<std::string> messages(2);
  run_ranks(groups, [&](Group& group) {
    Engine engine;
    const Whole whole(engine);
    auto own = slices(engine, whole, group.rank(), 2);
    change(group.rank(), own);
    try {
      write_checkpoint(system_env(), group, folder.path(),
                       {.step = 3, .state = "{}", .tensors = own, .files = {}});
    } catch (const Error& error) {
      messages[static_cast<size_t>(group.rank())] = error.what();
    }
  });
  EXPECT_EQ(messages[0], messages[1]);
  EXPECT_TRUE(system_env().list(folder.path()).empty());
  return messages[0];
}

TEST(Slices, HolesOverlapsAndTwicesAreNamed) {
  EXPECT_EQ(refusal([](int rank, auto& own) {
              if (rank == 1) own.erase(own.begin());
            }),
            "checkpoint: tensor 'rows': its slices hold 24 elements, expected the 42 of [7,6]");
  EXPECT_EQ(refusal([](int rank, auto& own) {
              if (rank == 1) own[0].offset = {2, 0};
            }),
            "checkpoint: tensor 'rows': its slices overlap");
  EXPECT_EQ(refusal([](int rank, auto& own) {
              if (rank == 1) own[0].offset = {5, 0};
            }),
            "checkpoint: tensor 'rows': slice at [5,0] of [3,6] lies outside of [7,6]");
  EXPECT_EQ(refusal([](int, auto& own) { own.push_back(own.back()); }),
            "checkpoint: tensor 'shared' is given twice");
}

}  // namespace
}  // namespace athanor::tests::slices_test
