// token_rows: the assignment against a naive one, the moves of rows against their formulas, and its contract.
#include <algorithm>

#include "kernels/kernel_test.h"

namespace athanor::tests::token_rows_test {
namespace {

using TokenRowsTest = IsaTest;
INSTANTIATE_TEST_SUITE_P(Isa, TokenRowsTest, row_isas(), isa_test_name);

// K different experts for each token.
std::vector<int32_t> random_choice(int64_t tokens, int64_t chosen, int32_t experts, uint64_t seed) {
  std::vector<int32_t> all;
  for (int64_t n = 0; n < tokens; ++n) {
    const std::vector<int32_t> start = random_ids(1, experts, seed + static_cast<uint64_t>(n));
    for (int64_t k = 0; k < chosen; ++k) all.push_back(static_cast<int32_t>((start[0] + k) % experts));
  }
  return all;
}

struct Assigned {
  ExpertCounts counts;
  std::vector<int> places, tokens;
};

Assigned assign(const std::vector<int32_t>& choice, int64_t chosen, int64_t experts,
                const std::vector<int64_t>& capacity = {}) {
  Bench bench(Isa::generic, 1);
  const int64_t tokens = std::ssize(choice) / chosen;
  const std::vector<int32_t> unset(choice.size(), -7);
  Tensor places = bench.ids(unset, {tokens, chosen}), rows = bench.ids(unset, {tokens * chosen});
  Assigned result;
  result.counts = bench.kernels().token_rows.assign(bench.queue(), places, rows,
                                                    bench.ids(choice, {tokens, chosen}), experts, capacity);
  for (const double place : values_of(places)) result.places.push_back(static_cast<int>(place));
  for (const double token : values_of(rows)) result.tokens.push_back(static_cast<int>(token));
  bench.expect_guards_intact();
  return result;
}

TEST(TokenRows, RowsAreSortedByExpertThenByToken) {
  const Assigned all = assign({2, 0, 1, 2, 2, 1}, 2, 4);
  EXPECT_EQ(all.counts.chosen, (std::vector<int64_t>{1, 2, 3, 0}));
  EXPECT_EQ(all.counts.kept, all.counts.chosen);
  EXPECT_EQ(all.tokens, (std::vector<int>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(all.places, (std::vector<int>{3, 0, 1, 4, 5, 2}));
}

TEST(TokenRows, BeyondTheCapacityTheLaterTokensAreDropped) {
  const Assigned some = assign({2, 0, 1, 2, 2, 1}, 2, 4, {1, 1, 1, 1});
  EXPECT_EQ(some.counts.chosen, (std::vector<int64_t>{1, 2, 3, 0}));
  EXPECT_EQ(some.counts.kept, (std::vector<int64_t>{1, 1, 1, 0}));
  EXPECT_EQ(some.places, (std::vector<int>{2, 0, 1, -1, -1, -1}));
  EXPECT_EQ((std::vector<int>{some.tokens.begin(), some.tokens.begin() + 3}), (std::vector<int>{0, 1, 0}));
}

TEST(TokenRows, TheMostRowsArePartitionedToTheFirstExperts) {
  using Rows = std::vector<int64_t>;
  EXPECT_EQ(most_rows(9, 2, 4, {}), (Rows{9, 9, 0, 0}));
  EXPECT_EQ(most_rows(9, 2, 4, Rows{5, 5, 5, 5}), (Rows{5, 5, 5, 3}));
  EXPECT_EQ(most_rows(9, 2, 4, Rows{4, 4, 4, 4}), (Rows{4, 4, 4, 4}));  // two are dropped
  EXPECT_EQ(most_rows(9, 2, 4, Rows{20, 0, 2, 20}), (Rows{9, 0, 2, 7}));
  EXPECT_EQ(most_rows(9, 3, 2, {}), (Rows{9, 9}));  // of an expert every token once
}

TEST(TokenRows, EachExpertHasACapacityOfItsOwn) {
  const Assigned some = assign({2, 0, 1, 2, 2, 1}, 2, 4, {0, 2, 2, 5});
  EXPECT_EQ(some.counts.chosen, (std::vector<int64_t>{1, 2, 3, 0}));
  EXPECT_EQ(some.counts.kept, (std::vector<int64_t>{0, 2, 2, 0}));
  EXPECT_EQ(some.places, (std::vector<int>{2, -1, 0, 3, -1, 1}));
}

TEST(TokenRows, NothingToAssign) {
  const Assigned none = assign({}, 2, 3);
  EXPECT_EQ(none.counts.kept, (std::vector<int64_t>{0, 0, 0}));
}

TEST(TokenRows, WrongChoicesAreRefused) {
  EXPECT_EQ(error_of([] {
              assign({0, 3}, 2, 3);
            }),
            "token_rows.assign: got expert 3 for token 0, expected 0 <= expert < 3");
  EXPECT_EQ(error_of([] { assign({0, 1, 1, 1}, 2, 3); }), "token_rows.assign: token 1 chose expert 1 twice");
  EXPECT_EQ(error_of([] {
              assign({0, 1}, 2, 1);
            }),
            "token_rows.assign: got 2 experts per token, expected at most 1");
  EXPECT_EQ(error_of([] {
              assign({0, 1}, 2, 3, {1, 1});
            }),
            "token_rows.assign: got the capacity of 2 experts, expected 3 or none");
}

TEST_P(TokenRowsTest, MovesAndSumsAsItsFormulas) {
  struct Sizes {
    int64_t tokens, chosen, width, capacity;
  };
  for (const Dtype dtype : kElementTypes)
    for (const Sizes& size :
         {Sizes{1, 1, 1, 0}, {5, 2, 17, 0}, {33, 3, 64, 4}, {130, 2, 257, 20}, {3, 2, 16, 1}}) {
      const int64_t tokens = size.tokens, chosen = size.chosen, width = size.width, capacity = size.capacity;
      SCOPED_TRACE(fmt::format("{} {} tokens, {} chosen, width {}", name_of(dtype), tokens, chosen, width));
      constexpr int64_t kExperts = 5;
      const auto choice = random_choice(tokens, chosen, kExperts, 9);
      const Assigned to =
          assign(choice, chosen, kExperts, std::vector<int64_t>(capacity == 0 ? 0 : kExperts, capacity));
      int64_t rows = 0;
      for (const int64_t kept : to.counts.kept) rows += kept;
      const std::vector<int32_t> places(to.places.begin(), to.places.end()),
          token_of(to.tokens.begin(), to.tokens.begin() + rows);
      const Values x = random_values(tokens * width, dtype, 1), r = random_values(rows * width, dtype, 2),
                   w = random_values(tokens * chosen, Dtype::f32, 3);
      const auto got = run(GetParam(), [&](Bench& bench) {
        const Shape by_token{tokens, width}, by_row{rows, width}, by_choice{tokens, chosen};
        const auto& k = bench.kernels().token_rows;
        const Tensor tokens_in = bench.input(x, by_token, dtype), rows_in = bench.input(r, by_row, dtype);
        const Tensor weights = bench.input(w, by_choice, Dtype::f32), place = bench.ids(places, by_choice);
        Tensor gathered = bench.output(by_row, dtype), dx = bench.output(by_token, dtype),
               combined = bench.output(by_token, dtype), drows = bench.output(by_row, dtype),
               dweights = bench.output(by_choice, Dtype::f32);
        k.gather(bench.queue(), gathered, tokens_in, bench.ids(token_of, {rows}));
        k.gather_backward(bench.queue(), dx, rows_in, place);
        k.combine(bench.queue(), combined, rows_in, weights, place);
        k.combine_backward(bench.queue(), drows, dweights, tokens_in, rows_in, weights, place);
        return std::vector{gathered, dx, combined, drows, dweights};
      });
      Values gathered, dx(x.size(), 0.0), combined(x.size(), 0.0), drows(r.size(), 0.0), dweights;
      const auto at = [&](int64_t row, int64_t c) { return static_cast<size_t>(row * width + c); };
      for (const int32_t token : token_of)
        for (int64_t c = 0; c < width; ++c) gathered.push_back(x[at(token, c)]);
      for (int64_t i = 0; i < tokens * chosen; ++i) {
        const int32_t row = places[static_cast<size_t>(i)];
        dweights.push_back(0);
        if (row < 0) continue;
        for (int64_t c = 0; c < width; ++c) {
          dx[at(i / chosen, c)] += r[at(row, c)];
          combined[at(i / chosen, c)] += w[static_cast<size_t>(i)] * r[at(row, c)];
          drows[at(row, c)] = w[static_cast<size_t>(i)] * x[at(i / chosen, c)];
          dweights.back() += x[at(i / chosen, c)] * r[at(row, c)];
        }
      }
      EXPECT_EQ(got[0], gathered);
      expect_close(got[1], dx, tolerance(dtype));
      expect_close(got[2], combined, tolerance(dtype));
      expect_close(got[3], drows, tolerance(dtype));
      expect_close(got[4], dweights, 1e-5);
    }
}

}  // namespace
}  // namespace athanor::tests::token_rows_test
