#include "kernels/kernel_test.h"

namespace athanor::tests {

std::unique_ptr<Queue> make_test_queue(ThreadPool* pool, Isa isa) {
  return make_cpu_queue(pool, isa);
}

bool tests_are_of_cuda() {
  return false;
}

bool device_is_emulated() {
  return false;
}

}  // namespace athanor::tests
