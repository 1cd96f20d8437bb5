// Fetching memory before it is needed, a few lines at a time between other work. In the order of memory the
// processor's own prefetcher runs along, so the fetches hold no line buffers that tile loads are waiting for.
#pragma once

#include "athanor/kernels/cpu/bf16/pack.h"

namespace athanor::ATHANOR_ISA {
namespace {

// The lines of memory under part of an operand, in their order, to be fetched into the second-level cache.
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
}  // namespace athanor::ATHANOR_ISA
