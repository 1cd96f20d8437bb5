#include "athanor/kernels/cpu/gemm_scratch.h"

#include <sys/mman.h>

#include <memory>
#include <new>

#include "athanor/kernels/cpu/gemm_block.h"

namespace athanor {
namespace {

class Scratch {
 public:
  Scratch() : data_(static_cast<std::byte*>(::operator new(kSize, kAlignment))) {
    ::madvise(data_.get(), kSize, MADV_HUGEPAGE);
  }
  std::byte* data() { return data_.get(); }

 private:
  static constexpr size_t kSize = kGemmScratchBytes;
  static constexpr std::align_val_t kAlignment{kSize};
  struct Free {
    void operator()(std::byte* data) const { ::operator delete(data, kAlignment); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace

std::byte* gemm_scratch() {
  thread_local Scratch scratch;
  return scratch.data();
}

}  // namespace athanor
