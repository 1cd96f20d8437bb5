#include "athanor/kernels/cuda/driver.h"

namespace athanor::kernels {
namespace {

constexpr uint64_t kWorkspaceBytes = uint64_t{32}
                                     << 20;  // what the library's fastest products ask for at most

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

// The library's fast products take rows that begin at multiples of 16 bytes. Where a large matrix has others, such as
// logits of an odd vocabulary, its rows are copied apart: two copies cost less than the slower product.
constexpr int64_t kRowBytes = 16, kLargeProduct = int64_t{1} << 24;

struct Matrix {
  Tensor memory{};  // of the copy, or none
  void* data = nullptr;
  int64_t row = 0;  // elements from one row to the next
};

// `x` with rows that begin where the library wants them.
Matrix spread(CudaQueue& device, const char* kernel, const Tensor& x, bool is_large, bool with_values) {
  const int64_t width = x.dim(-1), unit = kRowBytes / static_cast<int64_t>(size_of(x.dtype()));
  if (!is_large || width % unit == 0) return {{}, x.raw(), width};
  const int64_t row = (width + unit - 1) / unit * unit;
  Tensor apart = empty(x.arena(), {rows_of(x), row}, x.dtype(), Category::workspace);
  if (with_values)
    device.submitted(kernel, x,
                     kernels_of(device).copy_rows(device.stream(), x.dtype(), apart.raw(), row, x.raw(),
                                                  width, width, rows_of(x)));
  return {apart, apart.raw(), row};
}

void multiply(CudaQueue& device, const char* kernel, CudaProduct::Form form, Tensor& c, const Tensor& a,
              const Tensor& b, const Tensor* bias, bool add, const Tensor* residual = nullptr) {
  const bool is_tn = form == CudaProduct::tn;
  const int64_t m = is_tn ? a.dim(-1) : rows_of(a), k = is_tn ? rows_of(a) : a.dim(-1), n = c.dim(-1);
  if (m == 0 || n == 0 || (k == 0 && add)) return;
  if (k == 0) {
    fill_with_bias(device, kernel, c, bias);
    if (residual != nullptr) cuda_elementwise.add(device, c, *residual, c);
    return;
  }
  // cuBLASLt adds a bias of c's type only.
  const bool fuses_bias = bias != nullptr && bias->dtype() == c.dtype(),
             is_large = m * n >= kLargeProduct / k;
  const Matrix left = spread(device, kernel, a, is_large, true),
               right = spread(device, kernel, b, is_large, true),
               result = spread(device, kernel, c, is_large, add),
               base = residual == nullptr ? Matrix{} : spread(device, kernel, *residual, is_large, true);
  const LibraryWorkspace workspace(c.arena(), kWorkspaceBytes);
  device.submitted(kernel, c,
                   device.calls().product(device.stream(), {.form = form,
                                                            .m = m,
                                                            .n = n,
                                                            .k = k,
                                                            .in = a.dtype(),
                                                            .out = c.dtype(),
                                                            .add = add,
                                                            .a_row = left.row,
                                                            .b_row = right.row,
                                                            .c_row = result.row,
                                                            .a = left.data,
                                                            .b = right.data,
                                                            .bias = fuses_bias ? bias->raw() : nullptr,
                                                            .residual = base.data,
                                                            .c = result.data,
                                                            .workspace = workspace.data(),
                                                            .workspace_bytes = kWorkspaceBytes}));
  if (result.memory.defined())
    device.submitted(kernel, c,
                     kernels_of(device).copy_rows(device.stream(), c.dtype(), c.raw(), n, result.data,
                                                  result.row, n, rows_of(c)));
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

void nt_add(Queue& queue, Tensor& c, const Tensor& a, const Tensor& b, const Tensor* bias,
            const Tensor& residual) {
  cpu_gemm.nt_add(queue, c, a, b, bias, residual);
  multiply(cuda(queue), "gemm.nt", CudaProduct::nt, c, a, b, bias, /*add=*/false, &residual);
}

void nn_add(Queue& queue, Tensor& c, const Tensor& a, const Tensor& b, const Tensor& residual) {
  cpu_gemm.nn_add(queue, c, a, b, residual);
  multiply(cuda(queue), "gemm.nn", CudaProduct::nn, c, a, b, nullptr, /*add=*/false, &residual);
}

// Not by cuBLASLt's epilogue for this sum: it brought nothing on an H200 (its products with it are slower).
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
