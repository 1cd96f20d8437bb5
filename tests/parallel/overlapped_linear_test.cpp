// Products in chunks with their sums under way: the bits of the product and the collective one after the other.
#include "athanor/parallel/tensor/overlapped_linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "athanor/comm/shm/thread.h"
#include "athanor/parallel/tensor/collective_ops.h"
#include "support/engine.h"

namespace athanor::tests::overlapped_linear_test {
namespace {

using Fused = Var (*)(const Var&, Weight&, Weight*, Group&);
using Collective = Var (*)(const Var&, Group&);

constexpr int64_t kIn = 40, kOut = 24;

struct LinearOutcome {
  std::vector<float> value, dx, dw, db;
  bool operator==(const LinearOutcome&) const = default;
};

struct LinearCase {
  int ranks;
  int64_t sequences, length;
  Dtype dtype;
  bool bias;
  Isa isa;
};

// Of each rank: the fused one, or the two operations one after the other.
std::vector<LinearOutcome> run_linear(const LinearCase& c, Fused fused, Collective collective,
                                      std::set<std::string>* calls) {
  std::vector<LinearOutcome> outcomes(static_cast<size_t>(c.ranks));
  std::mutex mutex;
  GroupOptions options;
  options.on_done = [&](const std::string& name, int64_t, int64_t) {
    const std::lock_guard lock(mutex);
    if (calls != nullptr) calls->insert(name);
  };
  const auto groups = make_thread_groups(c.ranks, options);
  run_ranks(groups, [&](Group& group) {
    Engine engine(1, c.isa);
    const std::string own = std::to_string(group.rank());
    const auto weight = engine.param({kOut, kIn}, "w" + own, 0.5f, c.dtype);
    const auto bias = engine.param({kOut}, "b" + own, 0.5f, c.dtype);
    for (Param* param : {weight.get(), bias.get()})
      param->uses().front()->set_grad(zeros(engine.arena, param->shape(), Dtype::f32, Category::gradients));
    Weight& w = *weight->uses().front();
    Weight* b = c.bias ? bias->uses().front().get() : nullptr;
    Tape tape({.num_sequences = c.sequences, .seq_len = c.length, .record = true});
    const Var x = tape.leaf(engine.random({c.sequences, c.length, kIn}, "x" + own, 1.0f, c.dtype));
    const Var y = fused != nullptr ? fused(x, w, b, group) : collective(linear(x, w, b), group);
    LinearOutcome& outcome = outcomes[static_cast<size_t>(group.rank())];
    outcome.value = to_floats(y.value);
    // What is whole has one gradient, what is partitioned one on each rank.
    const std::string name = collective == reduce_from ? "dy" : "dy" + own;
    tape.backward(y, engine.random(y.value.shape(), name, 1.0f, c.dtype));
    outcome.dx = to_floats(tape.grad(x));
    outcome.dw = to_floats(w.grad());
    if (b != nullptr) outcome.db = to_floats(b->grad());
  });
  return outcomes;
}

TEST(OverlappedLinear, HasTheBitsOfTheTwoOperations) {
  const std::vector<std::pair<int64_t, int64_t>> tokens = {{1, 1}, {2, 60}, {2, 128}, {3, 131}, {4, 256}};
  for (const Isa isa : {Isa::generic, best_isa()})
    for (const int ranks : {1, 2, 3, 4})
      for (const auto& [sequences, length] : tokens)
        for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
          const LinearCase c{ranks, sequences, length, dtype, length % 2 == 0, isa};
          EXPECT_EQ(run_linear(c, linear_reduce_from, reduce_from, nullptr),
                    run_linear(c, nullptr, reduce_from, nullptr))
              << "reduce_from " << ranks << " ranks, " << sequences << " x " << length << " "
              << name_of(dtype);
          EXPECT_EQ(run_linear(c, linear_reduce_scatter, reduce_scatter, nullptr),
                    run_linear(c, nullptr, reduce_scatter, nullptr))
              << "reduce_scatter " << ranks << " ranks, " << sequences << " x " << length << " "
              << name_of(dtype);
        }
}

TEST(OverlappedLinear, LargeOnesGoInChunksAndSmallOnesDoNot) {
  std::set<std::string> calls;
  run_linear({2, 4, 256, Dtype::f32, false, best_isa()}, linear_reduce_from, reduce_from, &calls);
  EXPECT_EQ(calls, (std::set<std::string>{"reduce_from 1/4", "reduce_from 2/4", "reduce_from 3/4",
                                          "reduce_from 4/4"}));
  calls.clear();
  run_linear({2, 2, 256, Dtype::f32, false, best_isa()}, linear_reduce_scatter, reduce_scatter, &calls);
  EXPECT_EQ(calls,
            (std::set<std::string>{"reduce_scatter 1/2", "reduce_scatter 2/2", "reduce_scatter backward"}));
  calls.clear();
  run_linear({2, 1, 255, Dtype::f32, false, best_isa()}, linear_reduce_from, reduce_from, &calls);
  EXPECT_EQ(calls, (std::set<std::string>{"reduce_from"}));
}

TEST(OverlappedLinear, StandsForWhatItFuses) {
  const auto group = make_single_group();
  EXPECT_TRUE(overlapped(reduce_from, *group));
  EXPECT_TRUE(overlapped(reduce_scatter, *group));
  EXPECT_FALSE(overlapped(copy_to, *group));
  EXPECT_FALSE(overlapped(nullptr, *group));
}

}  // namespace
}  // namespace athanor::tests::overlapped_linear_test
