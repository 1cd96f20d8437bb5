#include "athanor/kernels/cuda/driver.h"

namespace athanor::kernels {
namespace {

constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;  // what the library's fastest products ask for at most

int64_t rows_of(const Tensor& x) {
  return x.shape().drop_last().numel();
}

// A product with k = 0.
void fill_with_bias(CudaQueue& device, const char* kernel, Tensor& c, const Tensor* bias) {
  fill_zero(c);
  if (bias == nullptr) return;
  Tensor sums = zeros(c.arena(), c.shape(), Dtype::f32, Category::workspace);
  device.submitted(kernel, c,
                   kernels_of(device).add_row(device.stream(), bias->dtype(), sums.data<float>(), bias->raw(),
                                              rows_of(c), c.dim(-1)));
  cuda_elementwise.cast(device, c, sums);
}

void multiply(CudaQueue& device, const char* kernel, CudaProduct::Form form, Tensor& c, const Tensor& a,
              const Tensor& b, const Tensor* bias, bool add) {
  const bool is_tn = form == CudaProduct::tn;
  const int64_t m = is_tn ? a.dim(-1) : rows_of(a), k = is_tn ? rows_of(a) : a.dim(-1), n = c.dim(-1);
  if (m == 0 || n == 0 || (k == 0 && add)) return;
  if (k == 0) return fill_with_bias(device, kernel, c, bias);
  // cuBLASLt adds a bias of c's type only.
  const bool fuses_bias = bias != nullptr && bias->dtype() == c.dtype();
  Tensor workspace = empty(c.arena(), {kWorkspaceBytes}, Dtype::u8, Category::workspace);
  device.submitted(kernel, c,
                   device.calls().product(device.stream(), {.form = form,
                                                            .m = m,
                                                            .n = n,
                                                            .k = k,
                                                            .in = a.dtype(),
                                                            .out = c.dtype(),
                                                            .add = add,
                                                            .a = a.raw(),
                                                            .b = b.raw(),
                                                            .bias = fuses_bias ? bias->raw() : nullptr,
                                                            .c = c.raw(),
                                                            .workspace = workspace.raw(),
                                                            .workspace_bytes = workspace.size_bytes()}));
  if (bias != nullptr && !fuses_bias)
    device.submitted(
        kernel, c,
        kernels_of(device).add_row(device.stream(), bias->dtype(), c.data<float>(), bias->raw(), m, n));
}

void nt(Queue& queue, Tensor& c, const Tensor& a, const Tensor& b, const Tensor* bias) {
  cpu_gemm.nt(queue, c, a, b, bias);
  multiply(cuda(queue), "gemm.nt", CudaProduct::nt, c, a, b, bias, /*add=*/false);
}

void nn(Queue& queue, Tensor& c, const Tensor& a, const Tensor& b) {
  cpu_gemm.nn(queue, c, a, b);
  multiply(cuda(queue), "gemm.nn", CudaProduct::nn, c, a, b, nullptr, /*add=*/false);
}

void tn(Queue& queue, Tensor& c, const Tensor& a, const Tensor& b, bool add) {
  cpu_gemm.tn(queue, c, a, b, add);
  multiply(cuda(queue), "gemm.tn", CudaProduct::tn, c, a, b, nullptr, add);
}

// The contract asks for the bits of a separate addition after the product; cuBLASLt's fused addition skips a rounding.
void nt_add(Queue& queue, Tensor& c, const Tensor& a, const Tensor& b, const Tensor* bias,
            const Tensor& residual) {
  cpu_gemm.nt_add(queue, c, a, b, bias, residual);
  multiply(cuda(queue), "gemm.nt", CudaProduct::nt, c, a, b, bias, /*add=*/false);
  if (c.numel() > 0) cuda_elementwise.add(queue, c, residual, c);
}

void nn_add(Queue& queue, Tensor& c, const Tensor& a, const Tensor& b, const Tensor& residual) {
  cpu_gemm.nn_add(queue, c, a, b, residual);
  multiply(cuda(queue), "gemm.nn", CudaProduct::nn, c, a, b, nullptr, /*add=*/false);
  if (c.numel() > 0) cuda_elementwise.add(queue, c, residual, c);
}

// cuBLASLt's epilogue for this sum has only the type of c, and an undocumented order.
void tn_sums(Queue& queue, Tensor& c, Tensor& sums, const Tensor& a, const Tensor& b, bool add) {
  cpu_gemm.tn_sums(queue, c, sums, a, b, add);
  multiply(cuda(queue), "gemm.tn", CudaProduct::tn, c, a, b, nullptr, add);
  cuda_elementwise.column_sum(queue, sums, a);
}

void nt_rope(Queue& queue, Tensor& c, const Tensor& a, const Tensor& b, const Tensor* bias, const Tensor& cos,
             const Tensor& sin, int64_t first_position) {
  cpu_gemm.nt_rope(queue, c, a, b, bias, cos, sin, first_position);
  Tensor rows = c.view({c.dim(0) * c.dim(1), c.dim(2) * c.dim(3)});
  multiply(cuda(queue), "gemm.nt", CudaProduct::nt, rows, a, b, bias, /*add=*/false);
  if (c.numel() > 0) cuda_rope.apply(queue, c, c, cos, sin, first_position, +1);
}

}  // namespace

const GemmKernels cuda_gemm{nt, nn, tn, nt_add, nn_add, tn_sums, nt_rope};

}  // namespace athanor::kernels
