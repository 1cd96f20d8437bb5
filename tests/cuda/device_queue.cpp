#include "cuda/device_queue.h"

#include <cstdlib>

#include "athanor/kernels/cuda/plugin.h"
#include "athanor/kernels/cuda/queue.h"
#include "kernels/kernel_test.h"
#include "support/places.h"

namespace athanor::tests {

std::string tested_plugin() {
  const char* named = std::getenv("ATHANOR_TEST_CUDA");
  return named != nullptr ? named : built("athanor_cuda_emulated.so");
}

const CudaCalls& tested_calls() {
  return load_cuda(tested_plugin());
}

// Instruction sets mean nothing here; each test is run for one of them.
std::unique_ptr<Queue> make_test_queue(ThreadPool* pool, Isa) {
  return make_cuda_queue(tested_calls(), 0, pool);
}

bool tests_are_of_cuda() {
  return true;
}

bool device_is_emulated() {
  return std::string(tested_calls().name) == "emulated";
}

}  // namespace athanor::tests
