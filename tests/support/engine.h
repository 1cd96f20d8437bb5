// What tests of the engine start from: threads, a queue and an arena, and tensors with known random values.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "athanor/autograd/param.h"
#include "athanor/base/philox.h"
#include "athanor/kernels/table.h"

namespace athanor::tests {

struct Engine {
  explicit Engine(int threads = 1, Isa isa = best_isa())
      : pool(threads), queue(make_cpu_queue(&pool, isa)), arena(*queue) {}

  // Normal values, by name: the same in every test that asks for them.
  Tensor random(const Shape& shape, const std::string& name, float std = 1.0f, Dtype dtype = Dtype::f32) {
    Tensor values = empty(arena, shape, Dtype::f32, Category::activations);
    RandomStream(7, name).fill_normal(values.data<float>(), 0, static_cast<uint64_t>(shape.numel()), std);
    if (dtype == Dtype::f32) return values;
    Tensor rounded = empty(arena, shape, dtype, Category::activations);
    kernels_of(values).elementwise.cast(*queue, rounded, values);
    return rounded;
  }
  Tensor ids(const Shape& shape, int64_t below, const std::string& name) {
    Tensor values = empty(arena, shape, Dtype::i32, Category::activations);
    const RandomStream stream(7, name);
    for (int64_t i = 0; i < shape.numel(); ++i)
      values.data<int32_t>()[i] =
          static_cast<int32_t>(stream.word(static_cast<uint64_t>(i), 0) % static_cast<uint64_t>(below));
    return values;
  }
  // A parameter with random values and one use.
  std::unique_ptr<Param> param(const Shape& shape, const std::string& name, float std = 0.5f,
                               Dtype dtype = Dtype::f32) {
    auto param = std::make_unique<Param>(name, shape, Init::normal(std));
    param->allocate(arena, dtype, false);
    param->initialize(11);
    param->add_use(name);
    return param;
  }

  ThreadPool pool;
  std::unique_ptr<Queue> queue;
  Arena arena;
};

// Notes the weights whose gradients are ready, and of which micro-batch.
struct ReadyGradients final : GradSource {
  explicit ReadyGradients(std::vector<Weight*> of, std::function<void()> also = {})
      : weights(std::move(of)), on_ready(std::move(also)) {
    for (Weight* weight : weights) weight->set_grad_source(this);
  }
  ~ReadyGradients() override {
    for (Weight* weight : weights) weight->set_grad_source(nullptr);
  }
  void grad_ready(Weight& weight, int64_t micro_batch) override {
    uses.push_back(weight.use());
    micro_batches.push_back(micro_batch);
    if (on_ready) on_ready();
  }
  std::vector<Weight*> weights;
  std::function<void()> on_ready;
  std::vector<std::string> uses;
  std::vector<int64_t> micro_batches;
};

inline std::vector<float> to_floats(const Tensor& x) {
  std::vector<float> values(static_cast<size_t>(x.numel()));
  if (x.dtype() == Dtype::f32) {
    copy_to_host(values.data(), x, x.size_bytes());
  } else {
    Tensor wide = empty(x.arena(), x.shape(), Dtype::f32, Category::workspace);
    kernels_of(x).elementwise.cast(x.queue(), wide, x);
    copy_to_host(values.data(), wide, wide.size_bytes());
  }
  return values;
}

}  // namespace athanor::tests
