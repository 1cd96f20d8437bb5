// What breaks a contract is an Error that names kernel, tensor, what was got and what was expected.
#include "kernels/kernel_test.h"

namespace athanor::tests::contract_test {
namespace {

class ContractTest : public testing::Test {
 protected:
  Tensor f32(const Shape& shape) { return zeros(arena_, shape, Dtype::f32, Category::activations); }
  Tensor bf16(const Shape& shape) { return zeros(arena_, shape, Dtype::bf16, Category::activations); }
  Tensor i32(const Shape& shape) { return zeros(arena_, shape, Dtype::i32, Category::activations); }

  std::unique_ptr<Queue> owner_ = make_cpu_queue(nullptr, Isa::generic);
  Queue& queue_ = *owner_;
  Arena arena_{queue_};
  const KernelTable& k_ = queue_.table();
};

TEST_F(ContractTest, Norms) {
  Tensor x = f32({2, 3, 4}), y = f32({2, 3, 4}), w = f32({4}), rows = f32({6}), dw = f32({4});
  Tensor short_w = f32({5}), half_w = bf16({4}), few_rows = f32({5}), ids = i32({2, 3, 4}),
         other = f32({6, 4});
  EXPECT_EQ(error_of([&] { k_.rms_norm.forward(queue_, y, rows, x, short_w, 1e-5f); }),
            "rms_norm.forward: w is f32 [5], expected f32 [4]");
  EXPECT_EQ(error_of([&] { k_.rms_norm.forward(queue_, y, rows, x, half_w, 1e-5f); }),
            "rms_norm.forward: w is bf16 [4], expected f32 [4]");
  EXPECT_EQ(error_of([&] { k_.rms_norm.forward(queue_, y, few_rows, x, w, 1e-5f); }),
            "rms_norm.forward: rstd is f32 [5], expected f32 with 6 elements");
  EXPECT_EQ(error_of([&] { k_.rms_norm.forward(queue_, y, rows, ids, w, 1e-5f); }),
            "rms_norm.forward: got elements of i32, expected f32, bf16 or f16");
  EXPECT_EQ(error_of([&] { k_.rms_norm.backward(queue_, other, x, x, w, rows, nullptr, nullptr); }),
            "rms_norm.backward: dx is f32 [6,4], expected f32 [2,3,4]");
  EXPECT_EQ(error_of([&] { k_.rms_norm.backward_weight(queue_, short_w, x, x, rows); }),
            "rms_norm.backward_weight: dw is f32 [5], expected f32 [4]");
  EXPECT_EQ(error_of([&] { k_.layer_norm.forward(queue_, y, rows, rows, x, w, &short_w, 1e-5f); }),
            "layer_norm.forward: b is f32 [5], expected f32 [4]");
  EXPECT_EQ(error_of([&] {
              k_.layer_norm.backward(queue_, y, other, x, w, rows, rows, nullptr, nullptr, nullptr);
            }),
            "layer_norm.backward: dy is f32 [6,4], expected f32 [2,3,4]");
  EXPECT_EQ(error_of([&] { k_.layer_norm.backward_weight(queue_, dw, &half_w, x, x, rows, rows); }),
            "layer_norm.backward_weight: db is bf16 [4], expected f32 [4]");
  Tensor undefined;
  EXPECT_EQ(error_of([&] { k_.rms_norm.forward(queue_, undefined, rows, x, w, 1e-5f); }),
            "rms_norm.forward: y is undefined, expected f32 [2,3,4]");
}

TEST_F(ContractTest, Rope) {
  Tensor x = f32({1, 3, 2, 4}), y = f32({1, 3, 2, 4}), cos = f32({5, 2}), sin = f32({5, 2});
  Tensor odd = f32({1, 3, 2, 5}), narrow = f32({5, 1});
  EXPECT_EQ(error_of([&] { k_.rope.apply(queue_, y, x, cos, sin, 3, 1); }),
            "rope.apply: got positions [3, 6), expected them within the 5 of cos and sin");
  EXPECT_EQ(error_of([&] { k_.rope.apply(queue_, odd, odd, cos, sin, 0, 1); }),
            "rope.apply: x is [1,3,2,5], expected [B,T,H,D] with an even D");
  EXPECT_EQ(error_of([&] { k_.rope.apply(queue_, y, x, narrow, narrow, 0, 1); }),
            "rope.apply: cos is f32 [5,1], expected f32 [5,2]");
  EXPECT_EQ(error_of([&] { k_.rope.apply(queue_, y, x, cos, sin, 0, 2); }),
            "rope.apply: got sign 2, expected 1 or -1");
}

TEST_F(ContractTest, Activations) {
  Tensor x = f32({4}), y = f32({4}), other = f32({5}), half = bf16({4});
  EXPECT_EQ(error_of([&] { k_.swiglu.forward(queue_, y, x, other); }),
            "swiglu.forward: up is f32 [5], expected f32 [4]");
  EXPECT_EQ(error_of([&] { k_.swiglu.backward(queue_, y, half, x, x, x); }),
            "swiglu.backward: dup is bf16 [4], expected f32 [4]");
  EXPECT_EQ(error_of([&] { k_.gelu.backward(queue_, y, half, x, GeluForm::tanh); }),
            "gelu.backward: dy is bf16 [4], expected f32 [4]");
  EXPECT_EQ(error_of([&] { k_.dropout.apply(queue_, y, x, 1.0f, 0, 0, 0); }),
            "dropout.apply: got probability 1, expected 0 <= p < 1");
  EXPECT_EQ(error_of([&] { k_.dropout.apply(queue_, y, x, -0.5f, 0, 0, 0); }),
            "dropout.apply: got probability -0.5, expected 0 <= p < 1");
}

TEST_F(ContractTest, Embedding) {
  Tensor ids = i32({2, 3}), table = f32({5, 4}), y = f32({2, 3, 4}), flat = f32({6, 4}), narrow = f32({5, 3});
  Tensor positions = f32({2, 4});
  EXPECT_EQ(error_of([&] { k_.embedding.forward(queue_, flat, ids, table, nullptr, 0); }),
            "embedding.forward: y is [6,4], expected [2,3,C]");
  EXPECT_EQ(error_of([&] { k_.embedding.forward(queue_, y, ids, narrow, nullptr, 0); }),
            "embedding.forward: table is [5,3], expected [V,4]");
  EXPECT_EQ(error_of([&] { k_.embedding.forward(queue_, y, table, table, nullptr, 0); }),
            "embedding.forward: ids is f32 [5,4], expected i32 [5,4]");
  EXPECT_EQ(error_of([&] { k_.embedding.forward(queue_, y, ids, table, &positions, 0); }),
            "embedding.forward: got positions [0, 3), expected them within 2 of positions");
  EXPECT_EQ(error_of([&] { k_.embedding.backward(queue_, narrow, y, ids); }),
            "embedding.backward: dtable is f32 [5,3], expected f32 [5,4]");
  EXPECT_EQ(error_of([&] { k_.embedding.backward_positions(queue_, table, y, 3); }),
            "embedding.backward_positions: got positions [3, 6), expected them within 5 of dpositions");
}

TEST_F(ContractTest, CrossEntropy) {
  Tensor logits = f32({2, 5}), loss = f32({2}), targets = i32({2}), half = bf16({2, 5}), narrow = f32({2, 4});
  EXPECT_EQ(error_of([&] { k_.cross_entropy.rows(queue_, loss, nullptr, half, targets, 5, 1); }),
            "cross_entropy.rows: logits is bf16 [2,5], expected f32 [2,5]");
  EXPECT_EQ(error_of([&] { k_.cross_entropy.rows(queue_, loss, &narrow, logits, targets, 5, 1); }),
            "cross_entropy.rows: dlogits is f32 [2,4], expected f32 [2,5]");
  EXPECT_EQ(error_of([&] { k_.cross_entropy.rows(queue_, loss, nullptr, logits, targets, 6, 1); }),
            "cross_entropy.rows: got 6 classes, expected 1 to 5");
}

TEST_F(ContractTest, Attention) {
  Tensor q = f32({1, 4, 6, 8}), o = f32({1, 4, 6, 8}), lse = f32({1, 6, 4}), k = f32({1, 4, 2, 8});
  Tensor four = f32({1, 4, 4, 8}), few = f32({1, 3, 2, 8}), many = f32({1, 5, 2, 8}), dk = f32({1, 5, 2, 8});
  const auto forward = [&](const Tensor& key) {
    return error_of([&] { k_.attention.forward(queue_, o, lse, q, key, key, 1, {}); });
  };
  EXPECT_EQ(forward(four), "attention.forward: got 6 heads of q and 4 of k, expected a multiple");
  EXPECT_EQ(forward(few), "attention.forward: got 4 queries and 3 keys, expected at least as many keys");
  EXPECT_EQ(forward(bf16({1, 4, 2, 8})), "attention.forward: k is bf16 [1,4,2,8], expected f32 [1,4,2,8]");
  EXPECT_EQ(forward(k), "no error");
  EXPECT_EQ(error_of([&] { k_.attention.backward(queue_, o, dk, dk, q, q, lse, q, many, many, 1, {}); }),
            "attention.backward: got 4 queries and 5 keys, expected as many");
}

TEST_F(ContractTest, ElementwiseAndOptimizer) {
  Tensor x = f32({4}), y = f32({4}), other = f32({5}), half = bf16({4}), wide = f32({2, 4}), ids = i32({4});
  double sum = 0;
  const auto sum_squares = [&](const Tensor& of) { k_.elementwise.sum_squares(queue_, {&of, 1}, {&sum, 1}); };
  EXPECT_EQ(error_of([&] { k_.elementwise.add(queue_, y, x, other); }),
            "add: b is f32 [5], expected f32 [4]");
  EXPECT_EQ(error_of([&] { k_.elementwise.accumulate(queue_, y, half); }),
            "accumulate: x is bf16 [4], expected f32 [4]");
  EXPECT_EQ(error_of([&] { k_.elementwise.column_sum(queue_, other, wide); }),
            "column_sum: out is f32 [5], expected f32 [4]");
  EXPECT_EQ(error_of([&] { k_.elementwise.cast(queue_, other, x); }), "cast: y is f32 [5], expected f32 [4]");
  EXPECT_EQ(error_of([&] { k_.elementwise.cast(queue_, ids, x); }),
            "cast: got elements of i32, expected f32, bf16 or f16");
  EXPECT_EQ(error_of([&] { sum_squares(half); }), "sum_squares: x is bf16 [4], expected f32 [4]");
  EXPECT_EQ(error_of([&] { k_.elementwise.scale(queue_, half, 2); }),
            "scale: x is bf16 [4], expected f32 [4]");
  const AdamwTensors of_adamw{x, y, other, {}, x, 0};
  EXPECT_EQ(error_of([&] {
              k_.optimizer.adamw(queue_, {&of_adamw, 1}, {});
            }),
            "optimizer.adamw: v is f32 [5], expected f32 [4]");
  const SgdTensors of_sgd{x, y, ids, x, 0};
  EXPECT_EQ(error_of([&] {
              k_.optimizer.sgd(queue_, {&of_sgd, 1}, {});
            }),
            "optimizer.sgd: got elements of i32, expected f32, bf16 or f16");
}

}  // namespace
}  // namespace athanor::tests::contract_test
