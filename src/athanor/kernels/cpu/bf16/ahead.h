// Prefetches memory, a few cache lines at a time between other work. Fetches are in memory order, so that the
// processor's own prefetcher runs ahead of them and they occupy no line-fill buffers that tile loads need.
#pragma once

#include "athanor/kernels/cpu/bf16/pack.h"

namespace athanor::kernels::ATHANOR_ISA {
namespace {

// The cache lines under part of an operand, in memory order, to be prefetched into the second-level cache.
class Ahead {
 public:
  Ahead(const Operand& x, int64_t line, int64_t lines) {
    if (x.depth != 1 || line >= x.lines) return;
    at_ = x.data + line * x.line;
    run_ = in_run_ = (x.k + kSide - 1) / kSide;
    jump_ = x.line - run_ * kSide;
    left_ = run_ * smaller(lines, x.lines - line);
  }
  int64_t left() const { return left_; }
  [[gnu::always_inline]] void fetch(int64_t count) {
    for (; count > 0 && left_ > 0; --count, --left_) {
      _mm_prefetch(reinterpret_cast<const char*>(at_), _MM_HINT_T1);
      at_ += kSide;
      if (--in_run_ == 0) {
        in_run_ = run_;
        at_ += jump_;
      }
    }
  }

 private:
  const uint16_t* at_ = nullptr;
  int64_t run_ = 0, in_run_ = 0, jump_ = 0, left_ = 0;
};

}  // namespace
}  // namespace athanor::kernels::ATHANOR_ISA
