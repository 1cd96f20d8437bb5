// Queues, the null device and the explanation of choices.
#include "kernels/kernel_test.h"

namespace athanor::tests::table_test {
namespace {

TEST(TableTest, AnInstructionSetThisMachineLacksIsRefusedByName) {
  if (best_isa() == Isa::amx) GTEST_SKIP() << "this machine has every instruction set";
  const std::string error = error_of([] { make_cpu_queue(nullptr, Isa::amx); });
  EXPECT_EQ(error, fmt::format("instruction set: got amx, but this machine has no more than {}",
                               isa_name(best_isa())));
}

TEST(TableTest, EveryKernelHasAChoiceForEveryInstructionSet) {
  for (const Isa isa : all_isas()) {
    if (isa > best_isa()) continue;  // make_cpu_queue refuses it
    const std::vector<KernelChoice> choices = explain_kernels(isa);
    EXPECT_GE(choices.size(), 12u);
    for (const KernelChoice& choice : choices) EXPECT_NE(choice.chosen, "") << choice.kernel;
  }
  for (const KernelChoice& choice : explain_kernels(Isa::generic)) {
    const bool product = choice.kernel.rfind("gemm", 0) == 0;
    EXPECT_TRUE(product || choice.chosen == "ref") << choice.kernel << ": " << choice.chosen;
  }
}

// A layer's worth of kernels on a queue; returns the arena's account of it.
MemoryUsage usage_of(Queue& queue) {
  Arena arena(queue);
  const auto tensor = [&](const Shape& shape, Dtype dtype = Dtype::bf16) {
    return zeros(arena, shape, dtype, Category::activations);
  };
  const KernelTable& k = queue.table();
  const int64_t batch = 2, length = 70, width = 96, vocabulary = 50;
  const Shape shape{batch, length, width};
  Tensor ids = tensor({batch, length}, Dtype::i32), table = tensor({vocabulary, width});
  Tensor x = tensor(shape), y = tensor(shape), w = tensor({width});
  Tensor mean = tensor({batch, length}, Dtype::f32), rstd = tensor({batch, length}, Dtype::f32);
  Tensor dw = tensor({width}, Dtype::f32), db = tensor({width}, Dtype::f32);
  k.embedding.forward(queue, x, ids, table, nullptr, 0);
  k.rms_norm.forward(queue, y, rstd, x, w, 1e-5f);
  k.rms_norm.backward_weight(queue, dw, y, x, rstd);
  k.layer_norm.forward(queue, y, mean, rstd, x, w, nullptr, 1e-5f);
  k.layer_norm.backward_weight(queue, dw, &db, y, x, mean, rstd);
  k.elementwise.column_sum(queue, db, x);

  Tensor q = x.view({batch, length, 4, 24}), o = tensor({batch, length, 4, 24});
  Tensor key = tensor({batch, length, 2, 24}), value = tensor({batch, length, 2, 24});
  Tensor lse = tensor({batch, 4, length}, Dtype::f32), dq = tensor({batch, length, 4, 24});
  Tensor dk = tensor({batch, length, 2, 24}), dv = tensor({batch, length, 2, 24});
  k.attention.forward(queue, o, lse, q, key, value, 0.2f, {});
  k.attention.backward(queue, dq, dk, dv, o, o, lse, q, key, value, 0.2f, {});

  Tensor weight = tensor({vocabulary, width}), logits = tensor({batch * length, vocabulary}, Dtype::f32);
  Tensor hidden = x.view({batch * length, width}), dhidden = tensor({batch * length, width});
  Tensor dlogits = tensor({batch * length, vocabulary}), dweight = tensor({vocabulary, width}, Dtype::f32);
  Tensor loss = tensor({batch * length}, Dtype::f32), targets = ids.view({batch * length});
  k.gemm.nt(queue, logits, hidden, weight, nullptr);
  k.cross_entropy.rows(queue, loss, &dlogits, logits, targets, vocabulary, 1);
  k.gemm.nn(queue, dhidden, dlogits, weight);
  k.gemm.tn(queue, dweight, dlogits, hidden, true);
  double sum = 0;
  k.elementwise.sum_squares(queue, {&dweight, 1}, {&sum, 1});
  return arena.usage();
}

// The plan of memory is the run without its data: the same workspace, to the byte, for any number of threads.
TEST(TableTest, TheNullDeviceAllocatesWhatTheCpuDoes) {
  for (const Isa isa : all_isas()) {
    if (isa > best_isa()) continue;
    SCOPED_TRACE(isa_name(isa));
    const auto null = make_null_queue(isa);
    const MemoryUsage planned = usage_of(*null);
    EXPECT_GT(planned.peak[static_cast<size_t>(Category::workspace)], 0u);
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      const auto cpu = make_cpu_queue(&pool, isa);
      const MemoryUsage used = usage_of(*cpu);
      EXPECT_EQ(used.peak, planned.peak);
      EXPECT_EQ(used.current, planned.current);
      EXPECT_EQ(used.peak_total, planned.peak_total);
      EXPECT_EQ(used.reserved_total, planned.reserved_total);
    }
  }
}

TEST(TableTest, TheNullDeviceChecksContractsAndTouchesNothing) {
  const auto queue = make_null_queue();
  Arena arena(*queue);
  const Tensor x = empty(arena, {3, 5}, Dtype::f32, Category::activations);
  Tensor y = empty(arena, {3, 4}, Dtype::f32, Category::activations);
  EXPECT_EQ(error_of([&] { kernels_of(x).gelu.forward(*queue, y, x, GeluForm::tanh); }),
            "gelu.forward: y is f32 [3,4], expected f32 [3,5]");
  double sum = 1;
  kernels_of(x).elementwise.sum_squares(*queue, {&x, 1}, {&sum, 1});
  EXPECT_EQ(sum, 0);
  // Terabytes: there is no memory behind them.
  Tensor huge = empty(arena, {1 << 20, 1 << 20}, Dtype::f32, Category::parameters);
  kernels_of(huge).elementwise.scale(*queue, huge, 2);
}

}  // namespace
}  // namespace athanor::tests::table_test
