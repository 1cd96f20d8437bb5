// Compressed sums against their definition in one process, and their bytes against the documented formulas.
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "athanor/comm/hierarchical/hierarchical.h"
#include "athanor/comm/null.h"
#include "athanor/comm/shm/thread.h"
#include "athanor/parallel/compression/block_sum.h"
#include "athanor/parallel/compression/exact_sum.h"
#include "athanor/parallel/compression/powersgd_sum.h"
#include "athanor/parallel/compression/topk_sum.h"
#include "support/compression_definition.h"
#include "support/engine.h"

namespace athanor::tests::compression_test {
namespace {

constexpr double kRatio = 0.03;
constexpr int64_t kRank = 2;

Floats decoded(const BlockCode& code, const Floats& x) {
  const auto count = static_cast<int64_t>(x.size());
  std::vector<std::byte> bytes(static_cast<size_t>(code.bytes) + 8, std::byte{0x5a});
  Floats y(x.size() + 1, 77.0f);
  code.encode(x.data(), count, bytes.data());
  code.decode(bytes.data(), count, y.data());
  for (size_t i = bytes.size() - 8; i < bytes.size(); ++i) EXPECT_EQ(bytes[i], std::byte{0x5a}) << code.name;
  EXPECT_EQ(y.back(), 77.0f) << code.name;
  y.pop_back();
  return y;
}

TEST(BlockCode, IsItsDefinition) {
  const RandomStream stream(1, "code");
  for (const size_t count : {size_t{1}, size_t{2}, size_t{17}, size_t{255}, size_t{256}})
    for (const float scale : {0.0f, 1e-42f, 1e-30f, 1.0f, 1e30f}) {
      Floats x(count);
      for (size_t i = 0; i < count; ++i) x[i] = scale * stream.normal(i, count);
      EXPECT_EQ(decoded(bf16_code(), x), code_and_decode("bf16", x)) << count << " " << scale;
      EXPECT_EQ(decoded(onebit_code(), x), code_and_decode("onebit", x)) << count << " " << scale;
      if (scale == 1e-42f) continue;  // the definition's int8 knows no limit of 127
      EXPECT_EQ(decoded(int8_code(), x), code_and_decode("int8", x)) << count << " " << scale;
    }
  EXPECT_EQ(decoded(int8_code(), {127.0f, -127.0f, 0.4f, 2.5f, -3.5f}),
            (Floats{127.0f, -127.0f, 0.0f, 2.0f, -4.0f}));
  EXPECT_EQ(decoded(onebit_code(), {3.0f, -1.0f, 0.0f, 4.0f}), (Floats{2.0f, -2.0f, 2.0f, 2.0f}));
}

TEST(BlockCode, WhatIsNotFiniteStaysSo) {
  for (const BlockCode* code : {&bf16_code(), &int8_code(), &onebit_code()})
    for (const float bad :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      const Floats y = decoded(*code, {1.0f, bad, -2.0f});
      EXPECT_TRUE(std::any_of(y.begin(), y.end(), [](float v) { return !std::isfinite(v); })) << code->name;
    }
}

// Two matrices that do not fill their blocks, and one smaller than a block.
const std::vector<std::pair<int64_t, int64_t>> kShapes = {{21, 40}, {3, 5}, {64, 9}};

std::vector<SumTensor> tensors_of(int ranks, bool needed) {
  std::vector<SumTensor> tensors;
  for (const auto& [rows, cols] : kShapes) {
    SumTensor tensor{.name = std::to_string(rows), .rows = rows, .cols = cols};
    for (int r = 0; needed && r < ranks; ++r) {
      const int64_t row = (tensor.numel() / kCodeBlock / ranks + 1) * kCodeBlock;
      tensor.needed.push_back({std::min(tensor.numel(), r * row), std::min(tensor.numel(), (r + 1) * row)});
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::unique_ptr<CompressedSum> make_sum(const std::string& kind, Group& group, Arena& arena, bool feedback,
                                        bool needed = false) {
  auto tensors = tensors_of(group.size(), needed);
  if (kind == "exact") return std::make_unique<ExactSum>("x", group, arena);
  if (kind == "topk") return std::make_unique<TopkSum>("x", tensors, kRatio, group, arena, feedback);
  if (kind == "powersgd")
    return std::make_unique<PowersgdSum>("x", tensors, kRank, 1, group, arena, feedback);
  const BlockCode& code = kind == "bf16" ? bf16_code() : kind == "int8" ? int8_code() : onebit_code();
  return std::make_unique<BlockSum>("x", tensors, code, group, arena, feedback);
}

// What rank r has in step s; a third of the elements are small whole numbers, so that top-k meets ties.
Floats input(size_t tensor, int rank, int step) {
  const auto [rows, cols] = kShapes[tensor];
  const RandomStream stream(3, "input " + std::to_string(tensor) + " " + std::to_string(rank));
  Floats x(static_cast<size_t>(rows * cols));
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = stream.normal(i, static_cast<uint64_t>(step));
    if (i % 3 == 0) x[i] = std::rint(x[i]);
  }
  return x;
}

// The tensors of each step, as every rank has them after it.
using Steps = std::vector<std::vector<Floats>>;

Steps run_sum(const std::vector<std::unique_ptr<Group>>& groups, const std::string& kind, bool feedback,
              int steps, bool needed = false, int threads = 1) {
  std::vector<Steps> of_rank(groups.size());
  run_ranks(groups, [&](Group& group) {
    Engine engine(threads);
    const auto sum = make_sum(kind, group, engine.arena, feedback, needed);
    WaitClock clock(nullptr);
    for (int step = 0; step < steps; ++step) {
      std::vector<Tensor> grads;
      for (size_t t = 0; t < kShapes.size(); ++t) {
        const Floats x = input(t, group.rank(), step);
        grads.push_back(
            empty(engine.arena, {static_cast<int64_t>(x.size())}, Dtype::f32, Category::gradients));
        copy_from_host(grads.back(), x.data(), x.size() * sizeof(float));
      }
      sum->start(grads);
      sum->proceed(clock);
      sum->finish(clock);
      auto& done = of_rank[static_cast<size_t>(group.rank())].emplace_back();
      for (const Tensor& grad : grads) done.push_back(to_floats(grad));
    }
  });
  if (!needed) {
    for (const Steps& other : of_rank) EXPECT_EQ(other, of_rank[0]) << kind << ": ranks disagree";
    return of_rank[0];
  }
  Steps whole = of_rank[0];  // the range that each rank needed
  const auto tensors = tensors_of(static_cast<int>(groups.size()), true);
  for (size_t r = 0; r < of_rank.size(); ++r)
    for (size_t s = 0; s < whole.size(); ++s)
      for (size_t t = 0; t < kShapes.size(); ++t)
        for (int64_t i = tensors[t].needed[r].first; i < tensors[t].needed[r].last; ++i)
          whole[s][t][static_cast<size_t>(i)] = of_rank[r][s][t][static_cast<size_t>(i)];
  return whole;
}

Steps define_sum(const std::string& kind, int ranks, bool feedback, int steps, bool both_ways = true) {
  CompressionDefinition definition(kind, feedback, kRatio, kRank);
  Steps all;
  for (int step = 0; step < steps; ++step) {
    all.emplace_back();
    for (size_t t = 0; t < kShapes.size(); ++t) {
      std::vector<Floats> x;
      for (int r = 0; r < ranks; ++r) x.push_back(input(t, r, step));
      all.back().push_back(definition.sum(std::to_string(kShapes[t].first), x,
                                          static_cast<size_t>(kShapes[t].second), both_ways));
    }
  }
  return all;
}

double gap(const Floats& a, const Floats& b) {
  double difference = 0.0, norm = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    norm += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / norm);
}

TEST(CompressedSum, HasTheBitsOfItsDefinition) {
  for (const char* kind : {"bf16", "int8", "onebit", "topk"})
    for (const int ranks : {1, 2, 3, 5})
      for (const bool feedback : {true, false})
        EXPECT_EQ(run_sum(make_thread_groups(ranks), kind, feedback, 4), define_sum(kind, ranks, feedback, 4))
            << kind << ", " << ranks << " ranks, error feedback " << feedback;
}

TEST(CompressedSum, PowersgdIsNearItsDefinition) {
  for (const int ranks : {1, 2, 3, 5})
    for (const bool feedback : {true, false}) {
      const Steps got = run_sum(make_thread_groups(ranks), "powersgd", feedback, 4);
      const Steps expected = define_sum("powersgd", ranks, feedback, 4);
      EXPECT_EQ(got, run_sum(make_thread_groups(ranks), "powersgd", feedback, 4, false, 3)) << "threads";
      for (size_t s = 0; s < got.size(); ++s)
        for (size_t t = 0; t < kShapes.size(); ++t)
          // Each factor comes from the last one: rounding grows with the steps.
          EXPECT_LT(gap(got[s][t], expected[s][t]), s == 0 ? 1e-6 : 3e-5)
              << ranks << " ranks, step " << s << ", tensor " << t;
    }
}

TEST(CompressedSum, WhereARankNeedsARangeTheSumIsNotEncoded) {
  for (const char* kind : {"bf16", "int8", "topk"})
    for (const int ranks : {2, 3})
      EXPECT_EQ(run_sum(make_thread_groups(ranks), kind, true, 3, /*needed=*/true),
                define_sum(kind, ranks, true, 3, /*both_ways=*/false))
          << kind << ", " << ranks << " ranks";
}

std::vector<std::unique_ptr<Group>> two_levels(int hosts, int ranks) {
  std::vector<std::unique_ptr<Group>> groups;
  std::vector<std::vector<std::unique_ptr<Group>>> across;
  for (int i = 0; i < ranks; ++i) across.push_back(make_thread_groups(hosts));
  for (int h = 0; h < hosts; ++h) {
    auto host = make_thread_groups(ranks);
    for (int i = 0; i < ranks; ++i)
      groups.push_back(std::make_unique<HierarchicalGroup>(
          std::move(host[static_cast<size_t>(i)]),
          std::move(across[static_cast<size_t>(i)][static_cast<size_t>(h)])));
  }
  return groups;
}

TEST(CompressedSum, TwoLevelsOfRanksGiveTheSameBits) {
  for (const char* kind : {"bf16", "int8", "onebit", "topk"})
    EXPECT_EQ(run_sum(two_levels(2, 2), kind, true, 3), define_sum(kind, 4, true, 3)) << kind;
}

// docs/compression.md.
int64_t bytes_of(const std::string& kind, int n, int rank) {
  int64_t blocks = 0, numel = 0, sent = 0, p = 0, q = 0;
  for (const auto& [rows, cols] : kShapes) {
    numel += rows * cols;
    blocks += (rows * cols + 255) / 256;
    sent += static_cast<int64_t>(std::ceil(kRatio * static_cast<double>(rows * cols)));
    p += kRank * rows;
    q += kRank * cols;
  }
  const auto all_reduce = [&](int64_t count) {
    const int64_t part = 4 * (count / n + (rank < count % n ? 1 : 0));
    return 4 * count - part + (n - 1) * part;
  };
  if (kind == "exact") return all_reduce(numel);
  if (kind == "topk") return (n - 1) * 8 * sent;
  if (kind == "powersgd") return all_reduce(p) + all_reduce(q);
  return 2 * (n - 1) * ((blocks + n - 1) / n) * (kind == "bf16" ? 512 : kind == "int8" ? 260 : 36);
}

TEST(CompressedSum, SendsTheDocumentedBytes) {
  for (const char* kind : {"exact", "bf16", "int8", "onebit", "topk", "powersgd"})
    for (const int ranks : {1, 2, 3, 4}) {
      const auto groups = make_thread_groups(ranks);
      run_sum(groups, kind, true, 3);
      for (const auto& group : groups)
        EXPECT_EQ(group->traffic().total().bytes, 3 * bytes_of(kind, ranks, group->rank()))
            << kind << ", rank " << group->rank() << " of " << ranks;
      // A plan counts the same.
      const auto planned = make_null_world(ranks - 1, ranks);
      const auto queue = make_null_queue(best_isa());
      Arena arena(*queue);
      const auto sum = make_sum(kind, planned->all(), arena, true);
      WaitClock clock(nullptr);
      std::vector<Tensor> grads;
      for (const auto& [rows, cols] : kShapes)
        grads.push_back(empty(arena, {rows * cols}, Dtype::f32, Category::gradients));
      sum->start(grads);
      sum->proceed(clock);
      sum->finish(clock);
      EXPECT_EQ(planned->all().traffic().total().bytes, bytes_of(kind, ranks, ranks - 1))
          << kind << " planned";
    }
}

// What has been sent and what is still owed are together what was to be sent.
TEST(CompressedSum, ErrorFeedbackLosesNothing) {
  for (const char* kind : {"bf16", "int8", "onebit", "topk", "powersgd"}) {
    constexpr int kRanks = 3, kSteps = 5;
    std::vector<double> balance(kShapes.size(), 0.0), size(kShapes.size(), 0.0);
    std::mutex mutex;
    run_ranks(make_thread_groups(kRanks), [&](Group& group) {
      Engine engine;
      const auto sum = make_sum(kind, group, engine.arena, true);
      WaitClock clock(nullptr);
      std::vector<double> mine(kShapes.size(), 0.0), absolute(kShapes.size(), 0.0);
      for (int step = 0; step < kSteps; ++step) {
        std::vector<Tensor> grads;
        for (size_t t = 0; t < kShapes.size(); ++t) {
          const Floats x = input(t, group.rank(), step);
          for (const float value : x) {
            mine[t] += double{value};
            absolute[t] += std::fabs(double{value});
          }
          grads.push_back(
              empty(engine.arena, {static_cast<int64_t>(x.size())}, Dtype::f32, Category::gradients));
          copy_from_host(grads.back(), x.data(), x.size() * sizeof(float));
        }
        sum->start(grads);
        sum->proceed(clock);
        sum->finish(clock);
        for (size_t t = 0; t < kShapes.size() && group.rank() == 0; ++t)
          for (const float value : to_floats(grads[t])) mine[t] -= double{value};
      }
      for (const SumState& state : sum->states())
        if (state.kind != StateKind::factor)
          for (const float value : to_floats(state.values)) mine[state.tensor] -= double{value};
      const std::lock_guard lock(mutex);
      for (size_t t = 0; t < kShapes.size(); ++t) {
        balance[t] += mine[t];
        size[t] += absolute[t];
      }
    });
    for (size_t t = 0; t < kShapes.size(); ++t)
      EXPECT_LT(std::fabs(balance[t]), 1e-5 * size[t]) << kind << " " << t;
  }
}

TEST(CompressedSum, PowersgdSurvivesNothingAndLittle) {
  run_ranks(make_thread_groups(2), [](Group& group) {
    Engine engine;
    PowersgdSum sum("x", {{.name = "m", .rows = 12, .cols = 10}}, 3, 1, group, engine.arena, false);
    WaitClock clock(nullptr);
    Tensor grad = zeros(engine.arena, {120}, Dtype::f32, Category::gradients);
    for (int step = 0; step < 3; ++step) {
      // No gradient, then one of rank 1, of which the other columns are rounding.
      for (int64_t i = 0; i < 120; ++i)
        grad.data<float>()[i] = step == 0 ? 0.0f : static_cast<float>((i / 10 + 1) * (i % 10 - 4));
      const Floats x = to_floats(grad);
      sum.start({grad});
      sum.proceed(clock);
      sum.finish(clock);
      const Floats y = to_floats(grad);
      for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(y[i], 2.0f * x[i], 1e-3f) << "step " << step;
    }
  });
}

}  // namespace
}  // namespace athanor::tests::compression_test
