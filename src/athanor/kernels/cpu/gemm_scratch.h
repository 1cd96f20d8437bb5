// Scratch memory of each thread for packing operands. It is the thread's own and not the arena's: the same 2 MiB serve
// every product, so they stay in the thread's cache. (An arena cannot plan it: the plan does not know the number of
// threads.)
#pragma once

#include <cstddef>

#include "athanor/base/namespaces.h"

namespace athanor::kernels {

// This thread's own, kGemmScratchBytes (gemm_block.h) on a boundary of as many: one huge page. Freed with the thread.
std::byte* gemm_scratch();

}  // namespace athanor::kernels
