// A matrix product with a thread for each element of the result: for the shapes that cuBLASLt refuses (bf16 and f16 rows of
// an odd length into f32), and for the emulated device.
#include "athanor/kernels/cuda/device/launch.cuh"
#include "athanor/kernels/cuda/device/product.h"

namespace athanor::kernels::cuda {
namespace {

template <typename In, typename Out>
__global__ void multiply(Out* c, const In* a, const In* b, const In* bias, const Out* residual,
                         CudaProduct p) {
  const int64_t i = element();
  if (i >= p.m * p.n) return;
  const int64_t row = i / p.n, column = i % p.n;
  const int64_t a_step = p.form == CudaProduct::tn ? p.a_row : 1;
  const int64_t b_step = p.form == CudaProduct::nt ? 1 : p.b_row;
  a += p.form == CudaProduct::tn ? row : row * p.a_row;
  b += p.form == CudaProduct::nt ? column * p.b_row : column;
  float sum = 0;
  for (int64_t l = 0; l < p.k; ++l) sum += to_float(a[l * a_step]) * to_float(b[l * b_step]);
  if (bias != nullptr) sum += to_float(bias[column]);
  if (residual != nullptr) sum += to_float(residual[row * p.c_row + column]);
  c += row * p.c_row + column;
  if (p.add) sum += to_float(*c);
  *c = from_float<Out>(sum);
}

}  // namespace

Error plain_product(Stream stream, const CudaProduct& p) {
  return with_type(p.in, [&](auto from) {
    using In = decltype(from);
    const auto run = [&](auto to) {
      using Out = decltype(to);
      return launch(stream, multiply<In, Out>, blocks_of(p.m * p.n), kThreads, out<Out>(p.c), in<In>(p.a),
                    in<In>(p.b), in<In>(p.bias), in<Out>(p.residual), p);
    };
    return p.out == Dtype::f32 ? run(float{}) : run(from);
  });
}

}  // namespace athanor::kernels::cuda
