#include <cstring>

#include "athanor/kernels/cpu/cpu.h"

namespace athanor::kernels {
namespace {

// Checks that logits [N,V], targets and classes fit together.
void check_inputs(const char* kernel, const Queue& queue, const Tensor& logits, const Tensor& targets,
                  const ClassRange& classes) {
  check(logits.defined() && logits.shape().dims() == 2, "{}: logits are {}, expected [N,V]", kernel,
        logits.shape());
  expect(kernel, "logits", logits, logits.shape(), Dtype::f32);
  const int64_t count = logits.dim(0), width = logits.dim(1);
  expect_count(kernel, "targets", targets, count, Dtype::i32);
  check(classes.total >= 1 && classes.count >= 0 && classes.count <= width,
        "{}: got {} classes, expected 1 to {}", kernel, classes.count, width);
  if (!on_cpu(queue)) return;
  for (int64_t n = 0; n < count; ++n)
    check(targets.data<int32_t>()[n] < classes.total, "{}: target {} of row {}, expected less than {}",
          kernel, targets.data<int32_t>()[n], n, classes.total);
}

void rows(Queue& queue, Tensor& loss, Tensor* dlogits, const Tensor& logits, const Tensor& targets,
          int64_t classes, float scale) {
  const char* kernel = "cross_entropy.rows";
  check_inputs(kernel, queue, logits, targets, {0, classes, classes});
  const int64_t count = logits.dim(0), width = logits.dim(1);
  expect_count(kernel, "loss", loss, count, Dtype::f32);
  if (dlogits != nullptr) expect(kernel, "dlogits", *dlogits, logits.shape(), dlogits->dtype());
  const RowType type = dlogits == nullptr ? kF32 : row_type(kernel, *dlogits);
  const CrossEntropyRows& table = choose(queue, &RowTable::cross_entropy, type, &CrossEntropyRows::row);
  const Meter::Call call = metered(queue, kernel, 8.0 * flops_of(logits), bytes_of(logits, dlogits));
  for_blocks(queue, count, rows_per_block(width), [&](int64_t first, int64_t block) {
    for (int64_t n = first; n < first + block; ++n) {
      const int32_t target = targets.data<int32_t>()[n];
      void* gradient = dlogits == nullptr ? nullptr : at(*dlogits, n * width);
      float& row_loss = loss.data<float>()[n];
      if (target >= 0) {
        row_loss = table.row(gradient, logits.data<float>() + n * width, target, classes, width, scale);
      } else {
        row_loss = 0;
        if (gradient != nullptr)
          std::memset(gradient, 0, static_cast<size_t>(width) * size_of(dlogits->dtype()));
      }
    }
  });
}

// The target's column on this rank; -1 if another rank has it.
int32_t column_of(int32_t target, const ClassRange& classes) {
  const int64_t column = target - classes.first;
  return target >= 0 && column >= 0 && column < classes.count ? static_cast<int32_t>(column) : -1;
}

void statistics(Queue& queue, Tensor& result, const Tensor& logits, const Tensor& targets,
                const ClassRange& classes) {
  const char* kernel = "cross_entropy.statistics";
  check_inputs(kernel, queue, logits, targets, classes);
  const int64_t count = logits.dim(0), width = logits.dim(1);
  expect(kernel, "statistics", result, {count, 3}, Dtype::f32);
  const CrossEntropyRows& table = choose(queue, &RowTable::cross_entropy, kF32, &CrossEntropyRows::normalize);
  const Meter::Call call = metered(queue, kernel, 4.0 * flops_of(logits), bytes_of(logits));
  for_blocks(queue, count, rows_per_block(width), [&](int64_t first, int64_t block) {
    for (int64_t n = first; n < first + block; ++n) {
      const float* row = logits.data<float>() + n * width;
      const int32_t column = column_of(targets.data<int32_t>()[n], classes);
      const SoftmaxNormalizer norm = table.normalize(row, classes.count);
      float* out = result.data<float>() + n * 3;
      out[0] = norm.largest;
      out[1] = norm.sum;
      out[2] = column < 0 ? 0.0f : row[column];
    }
  });
}

void gradient(Queue& queue, Tensor& dlogits, const Tensor& logits, const Tensor& norms, const Tensor& targets,
              const ClassRange& classes, float scale) {
  const char* kernel = "cross_entropy.gradient";
  check_inputs(kernel, queue, logits, targets, classes);
  const int64_t count = logits.dim(0), width = logits.dim(1);
  expect(kernel, "statistics", norms, {count, 3}, Dtype::f32);
  expect(kernel, "dlogits", dlogits, logits.shape(), dlogits.dtype());
  const CrossEntropyRows& table =
      choose(queue, &RowTable::cross_entropy, row_type(kernel, dlogits), &CrossEntropyRows::gradient);
  const Meter::Call call = metered(queue, kernel, 4.0 * flops_of(logits), bytes_of(logits, dlogits));
  for_blocks(queue, count, rows_per_block(width), [&](int64_t first, int64_t block) {
    for (int64_t n = first; n < first + block; ++n) {
      const int32_t target = targets.data<int32_t>()[n];
      const float* norm = norms.data<float>() + n * 3;
      void* out = at(dlogits, n * width);
      if (target < 0)
        std::memset(out, 0, static_cast<size_t>(width) * size_of(dlogits.dtype()));
      else
        table.gradient(out, logits.data<float>() + n * width, {norm[0], norm[1]}, column_of(target, classes),
                       classes.count, width, scale);
    }
  });
}

}  // namespace

const CrossEntropyKernels cpu_cross_entropy{rows, statistics, gradient};

}  // namespace athanor::kernels
