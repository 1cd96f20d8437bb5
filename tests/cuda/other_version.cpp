// A plug-in of another time.
#include "athanor/kernels/cuda/calls.h"

namespace athanor::tests {

extern "C" const CudaCalls* athanor_cuda_calls() {
  static const CudaCalls calls{};
  return &calls;
}

}  // namespace athanor::tests
