#include "cuda/emulated/threads.h"

#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "athanor/base/check.h"
#include "cuda/emulated/memory.h"
#include "cuda/emulated/stream.h"

// Leaves one stack for another: what a call must preserve is kept on the one that is left.
extern "C" void athanor_emulated_switch(void** left, void* entered);
asm(R"(
.text
.globl athanor_emulated_switch
.hidden athanor_emulated_switch
.type athanor_emulated_switch, @function
athanor_emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rdx
  jmpq *%rdx
.size athanor_emulated_switch, .-athanor_emulated_switch
)");

namespace athanor::kernels::emulated {

namespace {

constexpr size_t kSharedBytes = 160 << 10;

// The threads of a block, kept for the next one. Used by one thread of the CPU.
class Fibers {
 public:
  Fibers() : stacks_(map_stacks()) {
    new (stacks_) Block{.fibers = this};  // where block_here() finds it
    begin_anew();
  }
  ~Fibers() { ::munmap(stacks_, kAllStacks); }
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  // Each round takes every thread from one barrier to the next, or to its end.
  void run_block(Index block, unsigned threads, const std::function<void()>& body) {
    auto* here = reinterpret_cast<Block*>(stacks_);
    here->index = block;
    here->size.x = threads;
    body_ = &body;
    threads_ = threads;
    ended_ = 0;
    while (ended_ == 0) {
      running_ = 0;
      athanor_emulated_switch(&own_stack_, fiber_stacks_[0]);
    }
    if (ended_ != threads) begin_anew();  // those that wait are given up
    check(ended_ == threads, "emulated: {} threads of a block wait at a barrier, {} do not come",
          threads - ended_, ended_);
  }

  // The running fiber, until its next turn: the next one runs, after the last one run_block.
  void leave() {
    void** left = &fiber_stacks_[running_];
    ++running_;
    athanor_emulated_switch(left, running_ == threads_ ? own_stack_ : fiber_stacks_[running_]);
  }

  std::byte* shared_memory() { return reinterpret_cast<std::byte*>(shared_.data()); }

  static Fibers& of_this_thread() {
    static thread_local Fibers fibers;
    return fibers;
  }

 private:
  // Aligned to its size.
  static std::byte* map_stacks() {
    void* data = ::mmap(nullptr, 2 * kAllStacks, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    check(data != MAP_FAILED, "emulated: no memory for the stacks of a block");
    auto* first = static_cast<std::byte*>(data);
    const size_t before = (kAllStacks - reinterpret_cast<uintptr_t>(data) % kAllStacks) % kAllStacks;
    if (before > 0) ::munmap(first, before);
    ::munmap(first + before + kAllStacks, kAllStacks - before);
    return first + before;
  }

  void begin_anew() {
    for (unsigned i = 0; i < kMostThreads; ++i) {
      // Stacks that all end in the same line of a cache's pages would share one set of it.
      const size_t unused = size_t{i % 64} * 5 * 64;
      auto* top = reinterpret_cast<void**>(stacks_ + (i + 1) * kStackBytes - unused);
      *--top = nullptr;  // entry() finds its stack aligned as after a call
      *--top = reinterpret_cast<void*>(&Fibers::entry);
      top -= 6;  // the six registers
      fiber_stacks_[i] = top;
    }
  }

  static void entry() {
    Fibers& all = *static_cast<Fibers*>(block_here().fibers);
    for (;;) {
      (*all.body_)();
      ++all.ended_;
      all.leave();
    }
  }

  std::byte* stacks_;
  std::array<void*, kMostThreads> fiber_stacks_;
  std::vector<double> shared_ = std::vector<double>(kSharedBytes / sizeof(double));
  const std::function<void()>* body_ = nullptr;
  unsigned threads_ = 0, running_ = 0, ended_ = 0;
  void* own_stack_ = nullptr;
};

}  // namespace

void synchronize_block() {
  static_cast<Fibers*>(block_here().fibers)->leave();
}

std::byte* shared_memory() {
  return static_cast<Fibers*>(block_here().fibers)->shared_memory();
}

const char* submit_kernel(CudaCalls::Stream* stream, int64_t blocks, int threads, uint64_t shared_bytes,
                          std::function<void()> body) {
  if (blocks == 0) return nullptr;
  if (threads < 1 || threads > static_cast<int>(kMostThreads))
    return "a block of no or too many threads asked for";
  if (shared_bytes > kSharedBytes) return "too much shared memory asked for";
  submit(stream, [blocks, threads, run = std::move(body)] {
    const DeviceAccess access;
    Fibers& fibers = Fibers::of_this_thread();
    for (int64_t block = 0; block < blocks; ++block)
      fibers.run_block({static_cast<unsigned>(block)}, static_cast<unsigned>(threads), run);
  });
  return nullptr;
}

}  // namespace athanor::kernels::emulated
