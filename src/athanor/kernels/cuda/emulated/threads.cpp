#include "athanor/kernels/cuda/emulated/threads.h"

#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "athanor/base/check.h"
#include "athanor/kernels/cuda/emulated/memory.h"
#include "athanor/kernels/cuda/emulated/stream.h"

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
  ret
.size athanor_emulated_switch, .-athanor_emulated_switch
)");

namespace athanor::emulated {

thread_local Index thread_index, block_index, block_size;

namespace {

constexpr size_t kStackBytes = 64 << 10;
constexpr unsigned kMostThreads = 256;
constexpr size_t kSharedBytes = 160 << 10;

// The threads of a block, kept for the next one. Used by one thread of the CPU.
class Fibers {
 public:
  Fibers() : stacks_(map_stacks()) {
    for (unsigned i = 0; i < kMostThreads; ++i) {
      auto* top = reinterpret_cast<void**>(stacks_ + (i + 1) * kStackBytes);
      *--top = nullptr;  // entry() finds its stack aligned as after a call
      *--top = reinterpret_cast<void*>(&Fibers::entry);
      top -= 6;  // the six registers
      fibers_[i].stack = top;
    }
  }
  ~Fibers() { ::munmap(stacks_, kMostThreads * kStackBytes); }
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  void run_block(unsigned threads, const std::function<void()>& body) {
    body_ = &body;
    for (unsigned i = 0; i < threads; ++i) fibers_[i].ended = false;
    for (unsigned left = threads; left > 0;) {
      unsigned waiting = 0;
      for (unsigned i = 0; i < threads; ++i) {
        if (fibers_[i].ended) continue;
        running_ = i;
        thread_index.x = i;
        enter(fibers_[i]);
        if (fibers_[i].ended)
          --left;
        else
          ++waiting;
      }
      check(waiting == 0 || waiting == left,
            "emulated: {} threads of a block wait at a barrier, {} do not come", waiting, threads - waiting);
      check(waiting == 0 || left == threads, "emulated: a barrier after {} of {} threads have ended",
            threads - left, threads);
    }
  }

  void leave() {  // the running fiber, until its next turn
    athanor_emulated_switch(&fibers_[running_].stack, own_stack_);
  }

  std::byte* shared_memory() { return reinterpret_cast<std::byte*>(shared_.data()); }

  static Fibers& of_this_thread() {
    static thread_local Fibers fibers;
    return fibers;
  }

 private:
  struct Fiber {
    void* stack = nullptr;
    bool ended = false;
  };

  static std::byte* map_stacks() {
    void* data = ::mmap(nullptr, kMostThreads * kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    check(data != MAP_FAILED, "emulated: no memory for the stacks of a block");
    return static_cast<std::byte*>(data);
  }

  void enter(Fiber& fiber) { athanor_emulated_switch(&own_stack_, fiber.stack); }

  static void entry() {
    for (;;) {
      Fibers& all = of_this_thread();
      (*all.body_)();
      all.fibers_[all.running_].ended = true;
      all.leave();
    }
  }

  std::byte* stacks_;
  std::array<Fiber, kMostThreads> fibers_;
  std::vector<double> shared_ = std::vector<double>(kSharedBytes / sizeof(double));
  const std::function<void()>* body_ = nullptr;
  unsigned running_ = 0;
  void* own_stack_ = nullptr;
};

}  // namespace

void synchronize_block() {
  Fibers::of_this_thread().leave();
}

std::byte* shared_memory() {
  return Fibers::of_this_thread().shared_memory();
}

const char* submit_kernel(CudaCalls::Stream* stream, int64_t blocks, int threads, uint64_t shared_bytes,
                          std::function<void()> body) {
  if (blocks == 0) return nullptr;
  if (shared_bytes > kSharedBytes) return "too much shared memory asked for";
  submit(stream, [blocks, threads, run = std::move(body)] {
    const DeviceAccess access;
    Fibers& fibers = Fibers::of_this_thread();
    block_size.x = static_cast<unsigned>(threads);
    for (int64_t block = 0; block < blocks; ++block) {
      block_index.x = static_cast<unsigned>(block);
      fibers.run_block(static_cast<unsigned>(threads), run);
    }
  });
  return nullptr;
}

}  // namespace athanor::emulated
