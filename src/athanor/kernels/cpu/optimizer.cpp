#include <algorithm>
#include <array>

#include "athanor/base/block_checksum.h"
#include "athanor/kernels/cpu/cpu.h"

namespace athanor::kernels {
namespace {

static_assert(kBlockElements * sizeof(float) == kChecksumBlockBytes);  // a block of work is one of checksums

// A call that writes more than this elsewhere writes past the caches. Less may be there still when it is read again.
constexpr uint64_t kStreamBytes = uint64_t{8} << 20;

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

void expect_destination(const char* kernel, const char* name, const Destination& to, const Tensor& from) {
  if (to.tensor.defined()) expect(kernel, name, to.tensor, from.shape(), Dtype::f32);
}

bool is_elsewhere(const Destination& to) {
  return to.tensor.defined() || to.checksums != nullptr;
}

const Tensor& target(const Destination& to, const Tensor& from) {
  return to.tensor.defined() ? to.tensor : from;
}

uint64_t bytes_elsewhere(const Destination& to) {
  return to.tensor.defined() ? to.tensor.size_bytes() : 0;
}

void put_checksum(const Destination& to, uint64_t sum, int64_t first, int64_t count) {
  if (to.checksums == nullptr) return;
  const auto index = static_cast<uint64_t>(first / kBlockElements);
  to.checksums[index] = finish_block(sum, index, static_cast<uint64_t>(count) * sizeof(float));
}

AdamwState state_at(const Tensor& master, const Tensor& m, const Tensor& v, int64_t first) {
  return {master.data<float>() + first, m.data<float>() + first, v.data<float>() + first};
}
SgdState state_at(const Tensor& master, const Tensor& m, int64_t first) {
  return {master.data<float>() + first, m.data<float>() + first};
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
  uint64_t elsewhere = 0;
  for (const auto& [master, m, v, value, grad, weight_decay, to_master, to_m, to_v, lr_ratio] : all) {
    expect(kernel, "master", master, master.shape(), Dtype::f32);
    expect(kernel, "m", m, master.shape(), Dtype::f32);
    expect(kernel, "v", v, master.shape(), Dtype::f32);
    expect(kernel, "grad", grad, master.shape(), Dtype::f32);
    value_type(kernel, value, master);
    expect_destination(kernel, "to_master", to_master, master);
    expect_destination(kernel, "to_m", to_m, master);
    expect_destination(kernel, "to_v", to_v, master);
    flops += 14.0 * flops_of(master);
    bytes += bytes_of(master, master, m, m, v, v, value_of(value), grad);
    elsewhere += bytes_elsewhere(to_master) + bytes_elsewhere(to_m) + bytes_elsewhere(to_v);
  }
  const Meter::Call call = metered(queue, kernel, flops, bytes);
  for_blocks_of_masters(queue, all, [&](const AdamwTensors& x, int64_t first, int64_t count) {
    const RowType type = value_type(kernel, x.value, x.master);
    const OptimizerRows& rows = choose(queue, &RowTable::optimizer, type, &OptimizerRows::adamw);
    const AdamwState state = state_at(x.master, x.m, x.v, first);
    const float* grad = x.grad.data<float>() + first;
    const AdamwRow row{step.lr * x.lr_ratio, step.beta1,       step.beta2,       step.eps,
                       x.weight_decay,       step.correction1, step.correction2, step.grad_scale};
    if (!is_elsewhere(x.to_master) && !is_elsewhere(x.to_m) && !is_elsewhere(x.to_v))
      return rows.adamw(state, value_at(x.value, first), grad, count, row);
    const AdamwState to =
        state_at(target(x.to_master, x.master), target(x.to_m, x.m), target(x.to_v, x.v), first);
    const BlockSums sums =
        rows.adamw_to(to, state, value_at(x.value, first), grad, count, row, elsewhere > kStreamBytes);
    put_checksum(x.to_master, sums.master, first, count);
    put_checksum(x.to_m, sums.m, first, count);
    put_checksum(x.to_v, sums.v, first, count);
  });
}

void sgd(Queue& queue, std::span<const SgdTensors> all, const SgdStep& step) {
  const char* kernel = "optimizer.sgd";
  double flops = 0.0, bytes = 0.0;
  uint64_t elsewhere = 0;
  for (const auto& [master, m, value, grad, weight_decay, to_master, to_m, lr_ratio] : all) {
    expect(kernel, "master", master, master.shape(), Dtype::f32);
    expect(kernel, "m", m, master.shape(), Dtype::f32);
    expect(kernel, "grad", grad, master.shape(), Dtype::f32);
    value_type(kernel, value, master);
    expect_destination(kernel, "to_master", to_master, master);
    expect_destination(kernel, "to_m", to_m, master);
    flops += 6.0 * flops_of(master);
    bytes += bytes_of(master, master, m, m, value_of(value), grad);
    elsewhere += bytes_elsewhere(to_master) + bytes_elsewhere(to_m);
  }
  const Meter::Call call = metered(queue, kernel, flops, bytes);
  for_blocks_of_masters(queue, all, [&](const SgdTensors& x, int64_t first, int64_t count) {
    const RowType type = value_type(kernel, x.value, x.master);
    const OptimizerRows& rows = choose(queue, &RowTable::optimizer, type, &OptimizerRows::sgd);
    const SgdState state = state_at(x.master, x.m, first);
    const float* grad = x.grad.data<float>() + first;
    const SgdRow row{step.lr * x.lr_ratio, step.momentum, x.weight_decay, step.grad_scale};
    if (!is_elsewhere(x.to_master) && !is_elsewhere(x.to_m))
      return rows.sgd(state, value_at(x.value, first), grad, count, row);
    const SgdState to = state_at(target(x.to_master, x.master), target(x.to_m, x.m), first);
    const BlockSums sums =
        rows.sgd_to(to, state, value_at(x.value, first), grad, count, row, elsewhere > kStreamBytes);
    put_checksum(x.to_master, sums.master, first, count);
    put_checksum(x.to_m, sums.m, first, count);
  });
}

void lamb_squares(Queue& queue, std::span<const LambTensors> all, const AdamwStep& step) {
  const char* kernel = "optimizer.lamb_squares";
  double flops = 0.0, bytes = 0.0;
  for (const auto& [master, m, v, grad, weight_decay, squares] : all) {
    expect(kernel, "master", master, master.shape(), Dtype::f32);
    expect(kernel, "m", m, master.shape(), Dtype::f32);
    expect(kernel, "v", v, master.shape(), Dtype::f32);
    expect(kernel, "grad", grad, master.shape(), Dtype::f32);
    flops += 18.0 * flops_of(master);
    bytes += bytes_of(master, m, v, grad);
  }
  const Meter::Call call = metered(queue, kernel, flops, bytes);
  const auto sum_squares = choose_f32(queue, &F32Rows::sum_squares);
  const auto update = choose(queue, &RowTable::optimizer, kF32, &OptimizerRows::lamb_update).lamb_update;
  static_assert(kBlockElements % kNormBlock == 0);
  for_blocks_of_masters(queue, all, [&](const LambTensors& x, int64_t first, int64_t count) {
    const AdamwRow row{step.lr,        step.beta1,       step.beta2,       step.eps,
                       x.weight_decay, step.correction1, step.correction2, step.grad_scale};
    std::array<float, kNormBlock> r{};
    for (int64_t at = first; at < first + count; at += kNormBlock) {
      const int64_t n = std::min(kNormBlock, first + count - at);
      const AdamwState state = state_at(x.master, x.m, x.v, at);
      update(r.data(), state, x.grad.data<float>() + at, n, row);
      double* squares = x.squares + 2 * (at / kNormBlock);
      squares[0] = sum_squares(state.master, n);
      squares[1] = sum_squares(r.data(), n);
    }
  });
}

}  // namespace

const OptimizerKernels cpu_optimizer{adamw, sgd, lamb_squares};

}  // namespace athanor::kernels
