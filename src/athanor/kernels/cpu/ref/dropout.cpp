#include "athanor/base/philox.h"
#include "athanor/kernels/cpu/ref/ref.h"

namespace athanor::kernels::ref {
namespace {

template <typename T>
void apply(void* y, const void* x, int64_t n, float p, uint64_t key, uint64_t step, uint64_t first_element) {
  const RandomStream stream(key);
  const float keep_factor = 1 / (1 - p);
  for (int64_t i = 0; i < n; ++i) {
    const bool keep = stream.uniform(first_element + static_cast<uint64_t>(i), step) >= p;
    out<T>(y)[i] = from_float<T>(keep ? to_float(in<T>(x)[i]) * keep_factor : 0);
  }
}

}  // namespace

template <typename T>
DropoutRows dropout() {
  return {apply<T>};
}

template DropoutRows dropout<float>();
template DropoutRows dropout<Bf16>();
template DropoutRows dropout<F16>();

}  // namespace athanor::kernels::ref
