// What tests of this program take the machine for: one with tile registers, where it has what their kernels use beside.
#include "athanor/base/cpu.h"

namespace athanor::tests {

Isa machine_isa() asm("__real__ZN7athanor4base8best_isaEv");
Isa emulated_isa() asm("__wrap__ZN7athanor4base8best_isaEv");

Isa emulated_isa() {
  return machine_isa() >= Isa::avx512_bf16 ? Isa::amx : machine_isa();
}

}  // namespace athanor::tests
