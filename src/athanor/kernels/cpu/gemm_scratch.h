// Memory of the thread that packs operands, not of the arena: it is the same 2 MiB for every product of any shape, so
// it stays in that thread's cache. (The arena cannot know how many threads there will be when it plans.)
#pragma once

#include <cstddef>

namespace athanor {

// This thread's own, kGemmScratchBytes (gemm_block.h) on a boundary of as many: one huge page. Freed with the thread.
std::byte* gemm_scratch();

}  // namespace athanor
