#include <algorithm>

#include "kernels/kernel_test.h"

namespace athanor::tests::embedding_test {
namespace {

using EmbeddingTest = IsaTest;
INSTANTIATE_TEST_SUITE_P(Isa, EmbeddingTest, row_isas(), isa_test_name);

struct EmbeddingSize {
  int64_t batch, length, width;
  int32_t vocabulary;
};
constexpr EmbeddingSize kEmbeddingSizes[] = {{0, 4, 8, 5},   {1, 1, 1, 1},    {2, 3, 17, 7},
                                             {3, 5, 64, 11}, {1, 33, 127, 4}, {4, 32, 260, 9}};

TEST_P(EmbeddingTest, ForwardPicksRows) {
  for (const Dtype dtype : kElementTypes)
    for (const EmbeddingSize& size : kEmbeddingSizes)
      for (const int64_t first : {0, 2}) {
        SCOPED_TRACE(fmt::format("{} [{},{},{}]", name_of(dtype), size.batch, size.length, size.width));
        const int64_t positions_count = size.length + 2;
        const Values table = random_values(size.vocabulary * size.width, dtype, 1);
        const Values positions = random_values(positions_count * size.width, dtype, 2);
        const std::vector<int32_t> ids = random_ids(size.batch * size.length, size.vocabulary, 3);
        const auto got = run(GetParam(), [&](Bench& bench) {
          const Shape shape{size.batch, size.length, size.width};
          const Tensor id = bench.ids(ids, {size.batch, size.length});
          const Tensor rows = bench.input(table, {size.vocabulary, size.width}, dtype);
          const Tensor extra = bench.input(positions, {positions_count, size.width}, dtype);
          Tensor plain = bench.output(shape, dtype), summed = bench.output(shape, dtype);
          bench.kernels().embedding.forward(bench.queue(), plain, id, rows, nullptr, 0);
          bench.kernels().embedding.forward(bench.queue(), summed, id, rows, &extra, first);
          return std::vector{plain, summed};
        });
        Values plain, summed;
        for (int64_t n = 0; n < size.batch * size.length; ++n)
          for (int64_t c = 0; c < size.width; ++c) {
            const double row = table[static_cast<size_t>(ids[static_cast<size_t>(n)] * size.width + c)];
            plain.push_back(row);
            summed.push_back(row +
                             positions[static_cast<size_t>((first + n % size.length) * size.width + c)]);
          }
        EXPECT_EQ(got[0], plain);
        expect_close(got[1], summed, tolerance(dtype));
      }
}

// The order of the additions is part of the contract, so these compare bits.
TEST_P(EmbeddingTest, BackwardAddsInOrder) {
  for (const Dtype dtype : kElementTypes)
    for (const EmbeddingSize& size : kEmbeddingSizes) {
      SCOPED_TRACE(fmt::format("{} [{},{},{}]", name_of(dtype), size.batch, size.length, size.width));
      const int64_t count = size.batch * size.length, positions_count = size.length + 2, first = 1;
      const Values dy = random_values(count * size.width, dtype, 4);
      const std::vector<int32_t> ids = random_ids(count, size.vocabulary, 5);
      const Values table = random_values(size.vocabulary * size.width, Dtype::f32, 6);
      const Values positions = random_values(positions_count * size.width, Dtype::f32, 7);
      const auto got = run(GetParam(), [&](Bench& bench) {
        const Tensor gradient = bench.input(dy, {size.batch, size.length, size.width}, dtype);
        Tensor dtable = bench.output(table, {size.vocabulary, size.width}, Dtype::f32);
        Tensor dpositions = bench.output(positions, {positions_count, size.width}, Dtype::f32);
        bench.kernels().embedding.backward(bench.queue(), dtable, gradient,
                                           bench.ids(ids, {size.batch, size.length}));
        bench.kernels().embedding.backward_positions(bench.queue(), dpositions, gradient, first);
        return std::vector{dtable, dpositions};
      });
      std::vector<float> dtable(table.begin(), table.end()), dpositions(positions.begin(), positions.end());
      for (int64_t n = 0; n < count; ++n)
        for (int64_t c = 0; c < size.width; ++c) {
          const auto value = static_cast<float>(dy[static_cast<size_t>(n * size.width + c)]);
          dtable[static_cast<size_t>(ids[static_cast<size_t>(n)] * size.width + c)] += value;
          dpositions[static_cast<size_t>((first + n % size.length) * size.width + c)] += value;
        }
      EXPECT_EQ(got[0], Values(dtable.begin(), dtable.end()));
      EXPECT_EQ(got[1], Values(dpositions.begin(), dpositions.end()));
    }
}

TEST_P(EmbeddingTest, NoRowIsZeroAndTakesNoGradient) {
  const std::vector<int32_t> ids = {1, kNoRow, 0, kNoRow};
  for (const Dtype dtype : kElementTypes) {
    constexpr int64_t kWidth = 19;
    const Values table = random_values(2 * kWidth, dtype, 1), positions = random_values(2 * kWidth, dtype, 2);
    const auto got = run(GetParam(), [&](Bench& bench) {
      const EmbeddingKernels& kernels = bench.kernels().embedding;
      const Tensor id = bench.ids(ids, {2, 2}), rows = bench.input(table, {2, kWidth}, dtype);
      const Tensor extra = bench.input(positions, {2, kWidth}, dtype);
      Tensor plain = bench.output({2, 2, kWidth}, dtype), summed = bench.output({2, 2, kWidth}, dtype);
      kernels.forward(bench.queue(), plain, id, rows, nullptr, 0);
      kernels.forward(bench.queue(), summed, id, rows, &extra, 0);
      Tensor gradient = bench.output(Values(2 * kWidth, 0), {2, kWidth}, Dtype::f32);
      kernels.backward(bench.queue(), gradient, bench.input(Values(4 * kWidth, 1), {2, 2, kWidth}, dtype),
                       id);
      Tensor sum = bench.output(Values(2 * kWidth, 0), {2, kWidth}, Dtype::f32);
      Tensor moved = bench.output(Values(2 * kWidth, 2), {2, kWidth}, Dtype::f32);
      kernels.move_rows(bench.queue(), sum, moved, id);
      return std::vector{plain, summed, gradient, sum};
    });
    for (size_t c = 0; c < kWidth; ++c) {
      EXPECT_EQ(got[0][c], table[kWidth + c]);
      EXPECT_EQ(got[0][kWidth + c], 0);
      EXPECT_EQ(got[1][kWidth + c], positions[kWidth + c]);
    }
    EXPECT_EQ(got[2], Values(2 * kWidth, 1));
    EXPECT_EQ(got[3], Values(2 * kWidth, 2));
  }
}

TEST_P(EmbeddingTest, MovedRowsAreAddedOnceAndLeftZero) {
  constexpr int64_t kVocabulary = 9, kWidth = 300;
  const std::vector<int32_t> ids = {7, 2, 7, 0, 7, 2};
  const Values sum = random_values(kVocabulary * kWidth, Dtype::f32, 1);
  Values rows = random_values(kVocabulary * kWidth, Dtype::f32, 2), expected = sum;
  for (int32_t id = 0; id < kVocabulary; ++id)
    for (int64_t c = 0; c < kWidth; ++c) {
      const auto i = static_cast<size_t>(id * kWidth + c);
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) rows[i] = 0;
      expected[i] = static_cast<float>(expected[i]) + static_cast<float>(rows[i]);
    }
  const auto got = run(GetParam(), [&](Bench& bench) {
    Tensor to = bench.output(sum, {kVocabulary, kWidth}, Dtype::f32);
    Tensor from = bench.output(rows, {kVocabulary, kWidth}, Dtype::f32);
    bench.kernels().embedding.move_rows(bench.queue(), to, from, bench.ids(ids, {2, 3}));
    return std::vector{to, from};
  });
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(static_cast<float>(got[0][i]), static_cast<float>(expected[i])) << i;
    ASSERT_EQ(got[1][i], 0) << i;
  }
}

TEST_P(EmbeddingTest, IdsOutsideTheTableAreNamed) {
  Bench bench(GetParam(), 2);
  const Tensor table = bench.input(Values(12, 1), {4, 3}, Dtype::f32);
  Tensor y = bench.output({1, 3, 3}, Dtype::f32), dtable = bench.output(Values(12, 0), {4, 3}, Dtype::f32);
  const Tensor high = bench.ids({0, 1, 4}, {1, 3}), low = bench.ids({0, -1, 3}, {1, 3});
  const EmbeddingKernels& kernels = bench.kernels().embedding;
  EXPECT_EQ(error_of([&] { kernels.forward(bench.queue(), y, high, table, nullptr, 0); }),
            "embedding.forward: id 4 at position 2, expected 0 <= id < 4");
  EXPECT_EQ(error_of([&] { kernels.forward(bench.queue(), y, low, table, nullptr, 0); }),
            "embedding.forward: id -1 at position 1, expected 0 <= id < 4");
  EXPECT_EQ(error_of([&] { kernels.backward(bench.queue(), dtable, y, high); }),
            "embedding.backward: id 4 at position 2, expected 0 <= id < 4");
  EXPECT_EQ(values_of(dtable), Values(12, 0));  // checked before anything is written
  bench.expect_guards_intact();
}

}  // namespace
}  // namespace athanor::tests::embedding_test
