#include "athanor/kernels/cpu/cpu.h"

namespace athanor::kernels {
namespace {

const Tensor* value_of(const Tensor& value) {
  return value.defined() ? &value : nullptr;
}

// The element type of `value`; f32 if there is none.
RowType value_type(const char* kernel, const Tensor& value, const Tensor& master) {
  if (!value.defined()) return kF32;
  const RowType type = row_type(kernel, value);
  expect(kernel, "value", value, master.shape(), value.dtype());
  return type;
}

void* value_at(const Tensor& value, int64_t element) {
  return value.defined() ? at(value, element) : nullptr;
}

// One parallel loop body(tensors, first, count) over the blocks of all masters, so that all threads share small ones,
// too.
template <typename Tensors, typename Body>
void for_blocks_of_masters(const Queue& queue, std::span<const Tensors> all, const Body& body) {
  for_blocks_of(
      queue, all.size(), [&](size_t i) { return all[i].master.numel(); },
      [&](size_t i, int64_t first, int64_t count) { body(all[i], first, count); });
}

void adamw(Queue& queue, std::span<const AdamwTensors> all, const AdamwStep& step) {
  const char* kernel = "optimizer.adamw";
  double flops = 0.0, bytes = 0.0;
  for (const auto& [master, m, v, value, grad, weight_decay] : all) {
    expect(kernel, "master", master, master.shape(), Dtype::f32);
    expect(kernel, "m", m, master.shape(), Dtype::f32);
    expect(kernel, "v", v, master.shape(), Dtype::f32);
    expect(kernel, "grad", grad, master.shape(), Dtype::f32);
    value_type(kernel, value, master);
    flops += 14.0 * flops_of(master);
    bytes += bytes_of(master, master, m, m, v, v, value_of(value), grad);
  }
  const Meter::Call call = metered(queue, kernel, flops, bytes);
  for_blocks_of_masters(queue, all, [&](const AdamwTensors& x, int64_t first, int64_t count) {
    const RowType type = value_type(kernel, x.value, x.master);
    const OptimizerRows& rows = choose(queue, &RowTable::optimizer, type, &OptimizerRows::adamw);
    rows.adamw(x.master.data<float>() + first, x.m.data<float>() + first, x.v.data<float>() + first,
               value_at(x.value, first), x.grad.data<float>() + first, count,
               {step.lr, step.beta1, step.beta2, step.eps, x.weight_decay, step.correction1, step.correction2,
                step.grad_scale});
  });
}

void sgd(Queue& queue, std::span<const SgdTensors> all, const SgdStep& step) {
  const char* kernel = "optimizer.sgd";
  double flops = 0.0, bytes = 0.0;
  for (const auto& [master, m, value, grad, weight_decay] : all) {
    expect(kernel, "master", master, master.shape(), Dtype::f32);
    expect(kernel, "m", m, master.shape(), Dtype::f32);
    expect(kernel, "grad", grad, master.shape(), Dtype::f32);
    value_type(kernel, value, master);
    flops += 6.0 * flops_of(master);
    bytes += bytes_of(master, master, m, m, value_of(value), grad);
  }
  const Meter::Call call = metered(queue, kernel, flops, bytes);
  for_blocks_of_masters(queue, all, [&](const SgdTensors& x, int64_t first, int64_t count) {
    const RowType type = value_type(kernel, x.value, x.master);
    const OptimizerRows& rows = choose(queue, &RowTable::optimizer, type, &OptimizerRows::sgd);
    rows.sgd(x.master.data<float>() + first, x.m.data<float>() + first, value_at(x.value, first),
             x.grad.data<float>() + first, count, {step.lr, step.momentum, x.weight_decay, step.grad_scale});
  });
}

}  // namespace

const OptimizerKernels cpu_optimizer{adamw, sgd};

}  // namespace athanor::kernels
