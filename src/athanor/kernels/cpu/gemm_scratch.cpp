#include "athanor/kernels/cpu/gemm_scratch.h"

#include <sys/mman.h>

#include <memory>
#include <new>

#include "athanor/kernels/cpu/gemm_block.h"

namespace athanor::kernels {
namespace {

constexpr size_t kSize = kGemmScratchBytes;
constexpr std::align_val_t kAlignment{kSize};

struct Free {
  void operator()(std::byte* data) const { ::operator delete(data, kAlignment); }
};
using Scratch = std::unique_ptr<std::byte, Free>;

Scratch make_scratch() {
  Scratch scratch(static_cast<std::byte*>(::operator new(kSize, kAlignment)));
  ::madvise(scratch.get(), kSize, MADV_HUGEPAGE);
  return scratch;
}

}  // namespace

std::byte* gemm_scratch() {
  thread_local const Scratch scratch = make_scratch();
  return scratch.get();  // NOLINT(clang-analyzer-cplusplus.NewDelete): it lives as long as the thread
}

}  // namespace athanor::kernels
