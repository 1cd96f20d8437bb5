#include "cuda/emulated/product.h"

#include "cuda/emulated/memory.h"
#include "cuda/emulated/threads.h"

namespace athanor::kernels::emulated {
namespace {

template <typename Call>
void with_type(Dtype type, const Call& call) {
  if (type == Dtype::f32) call(float{});
  if (type == Dtype::bf16) call(Bf16{});
  if (type == Dtype::f16) call(F16{});
}

template <typename In, typename Out>
void multiply(const CudaProduct& p) {
  const In *a = static_cast<const In*>(p.a), *b = static_cast<const In*>(p.b);
  const In* bias = static_cast<const In*>(p.bias);
  Out* c = static_cast<Out*>(p.c);
  const int64_t a_row = p.form == CudaProduct::tn ? 1 : p.a_row,
                a_sum = p.form == CudaProduct::tn ? p.a_row : 1;
  const int64_t b_sum = p.form == CudaProduct::nt ? 1 : p.b_row,
                b_column = p.form == CudaProduct::nt ? p.b_row : 1;
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < p.k; ++l)
        sum += static_cast<double>(to_float(a[i * a_row + l * a_sum])) *
               static_cast<double>(to_float(b[l * b_sum + j * b_column]));
      if (bias != nullptr) sum += static_cast<double>(to_float(bias[j]));
      if (p.residual != nullptr)
        sum += static_cast<double>(to_float(static_cast<const Out*>(p.residual)[i * p.c_row + j]));
      if (p.add) sum += static_cast<double>(to_float(c[i * p.c_row + j]));
      c[i * p.c_row + j] = from_float<Out>(static_cast<float>(sum));
    }
}

}  // namespace

const char* product(CudaCalls::Stream* stream, const CudaProduct& problem) {
  submit(stream, [problem] {
    const DeviceAccess access;
    with_type(problem.in, [&](auto in) {
      with_type(problem.out, [&](auto out) { multiply<decltype(in), decltype(out)>(problem); });
    });
  });
  return nullptr;
}

}  // namespace athanor::kernels::emulated
