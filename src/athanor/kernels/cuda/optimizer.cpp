#include "athanor/kernels/cuda/driver.h"

namespace athanor::kernels {
namespace {

Dtype type_of(const Tensor& value) {
  return value.defined() ? value.dtype() : Dtype::f32;
}
void* raw_or_null_of(const Tensor& value) {
  return value.defined() ? value.raw() : nullptr;
}

void refuse_destination(const char* kernel, const Destination& to) {
  check(!to.tensor.defined() && to.checksums == nullptr,
        "{}: got a destination or checksums, expected none on a CUDA device", kernel);
}

void adamw(Queue& queue, std::span<const AdamwTensors> all, const AdamwStep& step) {
  for (const AdamwTensors& x : all)
    for (const Destination* to : {&x.to_master, &x.to_m, &x.to_v}) refuse_destination("optimizer.adamw", *to);
  cpu_optimizer.adamw(queue, all, step);
  CudaQueue& device = cuda(queue);
  for (const auto& [master, m, v, value, grad, weight_decay, to_master, to_m, to_v, lr_ratio] : all)
    device.submitted(
        "optimizer.adamw", master,
        kernels_of(device).adamw(device.stream(), type_of(value), master.data<float>(), m.data<float>(),
                                 v.data<float>(), raw_or_null_of(value), grad.data<float>(), master.numel(),
                                 {step.lr * lr_ratio, step.beta1, step.beta2, step.eps, weight_decay,
                                  step.correction1, step.correction2, step.grad_scale}));
}

void sgd(Queue& queue, std::span<const SgdTensors> all, const SgdStep& step) {
  for (const SgdTensors& x : all)
    for (const Destination* to : {&x.to_master, &x.to_m}) refuse_destination("optimizer.sgd", *to);
  cpu_optimizer.sgd(queue, all, step);
  CudaQueue& device = cuda(queue);
  for (const auto& [master, m, value, grad, weight_decay, to_master, to_m, lr_ratio] : all)
    device.submitted(
        "optimizer.sgd", master,
        kernels_of(device).sgd(device.stream(), type_of(value), master.data<float>(), m.data<float>(),
                               raw_or_null_of(value), grad.data<float>(), master.numel(),
                               {step.lr * lr_ratio, step.momentum, weight_decay, step.grad_scale}));
}

void lamb_squares(Queue&, std::span<const LambTensors>, const AdamwStep&) {
  fail("optimizer.lamb_squares: got a CUDA device, expected the CPU");
}

}  // namespace

const OptimizerKernels cuda_optimizer{adamw, sgd, lamb_squares};

}  // namespace athanor::kernels
