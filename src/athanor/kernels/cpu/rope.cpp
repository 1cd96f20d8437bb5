#include "athanor/kernels/cpu/cpu.h"

namespace athanor {
namespace {

void apply(Queue& queue, Tensor& y, const Tensor& x, const Tensor& cos, const Tensor& sin,
           int64_t first_position, int sign) {
  const char* kernel = "rope.apply";
  const RopeRows& rows = choose(queue, &RowTable::rope, row_type(kernel, x), &RopeRows::apply);
  check(x.shape().dims() == 4 && x.dim(3) % 2 == 0, "{}: x is {}, expected [B,T,H,D] with an even D", kernel,
        x.shape());
  const int64_t length = x.dim(1), heads = x.dim(2), head_dim = x.dim(3);
  expect(kernel, "y", y, x.shape(), x.dtype());
  check(cos.defined() && cos.shape().dims() == 2, "{}: cos is {}, expected [P,{}]", kernel, cos.shape(),
        head_dim / 2);
  expect(kernel, "cos", cos, {cos.dim(0), head_dim / 2}, Dtype::f32);
  expect(kernel, "sin", sin, cos.shape(), Dtype::f32);
  check(first_position >= 0 && first_position + length <= cos.dim(0),
        "{}: got positions [{}, {}), expected them within the {} of cos and sin", kernel, first_position,
        first_position + length, cos.dim(0));
  check(sign == 1 || sign == -1, "{}: got sign {}, expected 1 or -1", kernel, sign);
  const int64_t width = heads * head_dim, half = head_dim / 2;
  const Meter::Call call = metered(queue, kernel, 3.0 * flops_of(x), bytes_of(y, x));
  for_blocks(queue, x.dim(0) * length, rows_per_block(width), [&](int64_t first, int64_t count) {
    for (int64_t row = first; row < first + count; ++row) {
      const int64_t position = first_position + row % length;
      rows.apply(at(y, row * width), at(x, row * width), cos.data<float>() + position * half,
                 sin.data<float>() + position * half, heads, head_dim, static_cast<float>(sign));
    }
  });
}

}  // namespace

const RopeKernels cpu_rope{apply};

}  // namespace athanor
