#include <cstring>

#include "athanor/kernels/cpu/cpu.h"

namespace athanor {
namespace {

void rows(Queue& queue, Tensor& loss, Tensor* dlogits, const Tensor& logits, const Tensor& targets,
          int64_t classes, float scale) {
  const char* kernel = "cross_entropy.rows";
  check(logits.defined() && logits.shape().dims() == 2, "{}: logits are {}, expected [N,V]", kernel,
        logits.shape());
  const int64_t count = logits.dim(0), width = logits.dim(1);
  expect(kernel, "logits", logits, logits.shape(), Dtype::f32);
  expect_count(kernel, "targets", targets, count, Dtype::i32);
  expect_count(kernel, "loss", loss, count, Dtype::f32);
  check(classes >= 1 && classes <= width, "{}: got {} classes, expected 1 to {}", kernel, classes, width);
  if (dlogits != nullptr) expect(kernel, "dlogits", *dlogits, logits.shape(), dlogits->dtype());
  const RowType type = dlogits == nullptr ? kF32 : row_type(kernel, *dlogits);
  const CrossEntropyRows& table = choose(queue, &RowTable::cross_entropy, type, &CrossEntropyRows::row);
  if (on_cpu(queue))
    for (int64_t n = 0; n < count; ++n)
      check(targets.data<int32_t>()[n] < classes, "{}: target {} of row {}, expected less than {}", kernel,
            targets.data<int32_t>()[n], n, classes);
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

}  // namespace

const CrossEntropyKernels cpu_cross_entropy{rows};

}  // namespace athanor
