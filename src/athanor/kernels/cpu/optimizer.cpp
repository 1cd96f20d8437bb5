#include "athanor/kernels/cpu/cpu.h"

namespace athanor {
namespace {

RowType value_type(const char* kernel, const Tensor* value, const Tensor& master) {
  if (value == nullptr) return kF32;
  const RowType type = row_type(kernel, *value);
  expect(kernel, "value", *value, master.shape(), value->dtype());
  return type;
}

void* value_at(const Tensor* value, int64_t element) {
  return value == nullptr ? nullptr : at(*value, element);
}

void adamw(Queue& queue, Tensor& master, Tensor& m, Tensor& v, Tensor* value, const Tensor& grad,
           const AdamwStep& step) {
  const char* kernel = "optimizer.adamw";
  expect(kernel, "master", master, master.shape(), Dtype::f32);
  expect(kernel, "m", m, master.shape(), Dtype::f32);
  expect(kernel, "v", v, master.shape(), Dtype::f32);
  expect(kernel, "grad", grad, master.shape(), Dtype::f32);
  const OptimizerRows& rows =
      choose(queue, &RowTable::optimizer, value_type(kernel, value, master), &OptimizerRows::adamw);
  const AdamwRow row{step.lr,           step.beta1,       step.beta2,       step.eps,
                     step.weight_decay, step.correction1, step.correction2, step.grad_scale};
  const Meter::Call call =
      metered(queue, kernel, 14.0 * flops_of(master), bytes_of(master, master, m, m, v, v, value, grad));
  for_blocks(queue, master.numel(), kBlockElements, [&](int64_t first, int64_t count) {
    rows.adamw(master.data<float>() + first, m.data<float>() + first, v.data<float>() + first,
               value_at(value, first), grad.data<float>() + first, count, row);
  });
}

void sgd(Queue& queue, Tensor& master, Tensor& m, Tensor* value, const Tensor& grad, const SgdStep& step) {
  const char* kernel = "optimizer.sgd";
  expect(kernel, "master", master, master.shape(), Dtype::f32);
  expect(kernel, "m", m, master.shape(), Dtype::f32);
  expect(kernel, "grad", grad, master.shape(), Dtype::f32);
  const OptimizerRows& rows =
      choose(queue, &RowTable::optimizer, value_type(kernel, value, master), &OptimizerRows::sgd);
  const SgdRow row{step.lr, step.momentum, step.weight_decay, step.grad_scale};
  const Meter::Call call =
      metered(queue, kernel, 6.0 * flops_of(master), bytes_of(master, master, m, m, value, grad));
  for_blocks(queue, master.numel(), kBlockElements, [&](int64_t first, int64_t count) {
    rows.sgd(master.data<float>() + first, m.data<float>() + first, value_at(value, first),
             grad.data<float>() + first, count, row);
  });
}

}  // namespace

const OptimizerKernels cpu_optimizer{adamw, sgd};

}  // namespace athanor
