#include "athanor/kernels/cpu/gemm_problem.h"
#include "athanor/kernels/cpu/rotation.h"

namespace athanor::kernels {
namespace {

void apply(Queue& queue, Tensor& y, const Tensor& x, const Tensor& cos, const Tensor& sin,
           int64_t first_position, int sign) {
  const char* kernel = "rope.apply";
  const Rotation rotation = rotation_of(queue, kernel, x, cos, sin, first_position);
  expect(kernel, "y", y, x.shape(), x.dtype());
  check(sign == 1 || sign == -1, "{}: got sign {}, expected 1 or -1", kernel, sign);
  rotate(queue, y, x, rotation, sign);
}

}  // namespace

const RopeKernels cpu_rope{apply};

void Rotation::apply(void* y, const void* x, int64_t row, int64_t count, int64_t some_heads, int sign) const {
  const int64_t half = head_dim / 2, stride = heads * head_dim;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t position = first_position + (row + i) % length;
    rows->apply(offset(y, i * stride, type), offset(x, i * stride, type), cos + position * half,
                sin + position * half, some_heads, head_dim, static_cast<float>(sign));
  }
}

void rotate(Queue& queue, Tensor& y, const Tensor& x, const Rotation& rotation, int sign) {
  const int64_t width = rotation.heads * rotation.head_dim;
  const Meter::Call call = metered(queue, "rope.apply", 3.0 * flops_of(x), bytes_of(y, x));
  for_blocks(queue, width == 0 ? 0 : x.numel() / width, rows_per_block(width),
             [&](int64_t first, int64_t count) {
               rotation.apply(at(y, first * width), at(x, first * width), first, count, rotation.heads, sign);
             });
}

Rotation rotation_of(Queue& queue, const char* kernel, const Tensor& x, const Tensor& cos, const Tensor& sin,
                     int64_t first_position) {
  const RowType type = row_type(kernel, x);
  const RopeRows& rows = choose(queue, &RowTable::rope, type, &RopeRows::apply);
  check(x.shape().dims() == 4 && x.dim(3) % 2 == 0, "{}: x is {}, expected [B,T,H,D] with an even D", kernel,
        x.shape());
  const int64_t length = x.dim(1), head_dim = x.dim(3);
  check(cos.defined() && cos.shape().dims() == 2, "{}: cos is {}, expected [P,{}]", kernel, cos.shape(),
        head_dim / 2);
  expect(kernel, "cos", cos, {cos.dim(0), head_dim / 2}, Dtype::f32);
  expect(kernel, "sin", sin, cos.shape(), Dtype::f32);
  check(first_position >= 0 && first_position + length <= cos.dim(0),
        "{}: got positions [{}, {}), expected them within the {} of cos and sin", kernel, first_position,
        first_position + length, cos.dim(0));
  return {&rows, type, cos.data<float>(), sin.data<float>(), length, first_position, x.dim(2), head_dim};
}

}  // namespace athanor::kernels
