#include "athanor/launch/diagnosis/stacks.h"

#include <cxxabi.h>
#include <elfutils/libdwfl.h>
#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>

#include "athanor/base/clock.h"

namespace athanor::launch::diagnosis {
namespace {

constexpr size_t kMostFrames = 64;

struct EndDwfl {
  void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
};
using OpenDwfl = std::unique_ptr<Dwfl, EndDwfl>;

// Unwinding by .eh_frame and names by symbol tables: nothing is looked for in debug files elsewhere.
int no_debug_file(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word,
                  char**) {
  return -1;
}

OpenDwfl open_modules(pid_t process) {
  static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf,
                                           .find_debuginfo = no_debug_file,
                                           .section_address = nullptr,
                                           .debuginfo_path = nullptr};
  OpenDwfl dwfl(dwfl_begin(&callbacks));
  if (dwfl == nullptr || dwfl_linux_proc_report(dwfl.get(), process) != 0 ||
      dwfl_report_end(dwfl.get(), nullptr, nullptr) != 0)
    return nullptr;
  return dwfl;
}

// A thread that ptrace holds; it goes on when this ends.
class Held {
 public:
  explicit Held(pid_t thread) : thread_(thread) {
    is_seized_ = ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) == 0;
    if (!is_seized_) error_ = errno;
  }
  ~Held() {
    if (!is_seized_) return;
    // One that has not stopped is let go with the end of the thread that traces it.
    if (is_stopped_) ptrace(PTRACE_DETACH, thread_, nullptr, nullptr);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  Held(Held&&) = delete;
  Held& operator=(Held&&) = delete;

  int error() const { return error_; }  // of the refusal; 0: none
  bool stop(int64_t until_ns) {
    if (!is_seized_ || ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) != 0) return false;
    for (;;) {
      // Not its end, which its parent, maybe this process, waits for.
      siginfo_t found{};
      const int waited = waitid(P_PID, static_cast<id_t>(thread_), &found, WSTOPPED | __WALL | WNOHANG);
      if (waited == 0 && found.si_pid == thread_) return is_stopped_ = true;
      if ((waited != 0 && errno != EINTR) || now_ns() >= until_ns) return false;
      constexpr timespec kPause{0, 100'000};
      nanosleep(&kPause, nullptr);
    }
  }

 private:
  pid_t thread_;
  bool is_seized_ = false, is_stopped_ = false;
  int error_ = 0;
};

int add_frame(Dwfl_Frame* frame, void* to) {
  auto& frames = *static_cast<std::vector<std::string>*>(to);
  Dwarf_Addr at = 0;
  bool is_activation = false;
  if (!dwfl_frame_pc(frame, &at, &is_activation) || frames.size() >= kMostFrames) return DWARF_CB_ABORT;
  if (!is_activation) --at;  // into the call itself, which may be the last instruction of its function
  Dwfl_Module* module = dwfl_addrmodule(dwfl_thread_dwfl(dwfl_frame_thread(frame)), at);
  const char* symbol = module != nullptr ? dwfl_module_addrname(module, at) : nullptr;
  if (symbol != nullptr) {
    frames.push_back(short_function_name(symbol));
    return DWARF_CB_OK;
  }
  const char* file = module == nullptr ? nullptr
                                       : dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr,
                                                          nullptr, nullptr);
  const std::string_view path = file != nullptr ? file : "";
  frames.push_back(fmt::format("? ({})", path.substr(path.rfind('/') + 1)));
  return DWARF_CB_OK;
}

std::string why_refused(int error) {
  return error == EPERM ? "ptrace is not permitted, or another process traces this one"
                        : std::string("ptrace: ") + std::strerror(error);
}

// Drops what stands between two brackets, with them.
std::string without(const std::string& text, char open, char close) {
  std::string rest;
  int depth = 0;
  for (const char c : text) {
    if (c == open) ++depth;
    if (depth == 0) rest += c;
    if (c == close && depth > 0) --depth;
  }
  return rest;
}

}  // namespace

std::string short_function_name(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), &std::free);
  if (demangled == nullptr) return symbol;
  std::string name = demangled.get();
  constexpr std::string_view kUnnamed = "(anonymous namespace)::", kCall = "operator()",
                             kPlain = "operator call";
  for (size_t at = 0; (at = name.find(kUnnamed)) != std::string::npos;) name.erase(at, kUnnamed.size());
  for (size_t at = 0; (at = name.find(kCall)) != std::string::npos;) name.replace(at, kCall.size(), kPlain);
  name.erase(std::min(name.find(" [clone "), name.size()));  // a copy that the compiler has made
  name = without(without(name, '<', '>'), '(', ')');
  name.erase(std::min(name.find(" const"), name.size()));
  const size_t space =
      name.rfind(' ', name.find(kPlain) == std::string::npos ? std::string::npos : name.find(kPlain) + 1);
  return space == std::string::npos ? name
                                    : name.substr(space + 1);  // without the type that a template returns
}

namespace {

void read_stacks(Dwfl* dwfl, int64_t until_ns, ProcessStacks& stacks) {
  for (ThreadStack& thread : stacks.threads) {
    Held held(thread.thread);
    if (held.error() == ESRCH) continue;  // it has ended
    if (held.error() != 0) {
      stacks.refused = why_refused(held.error());
      return;
    }
    if (held.stop(until_ns)) dwfl_getthread_frames(dwfl, thread.thread, add_frame, &thread.frames);
  }
}

}  // namespace

ProcessStacks take_stacks(pid_t process, int64_t limit_ms) {
  ProcessStacks stacks = thread_states(process);
  if (stacks.threads.empty()) return stacks;
  const OpenDwfl dwfl = open_modules(process);
  if (dwfl == nullptr || dwfl_linux_proc_attach(dwfl.get(), process, /*assume_ptrace_stopped=*/true) != 0) {
    stacks.refused = fmt::format("its files cannot be read: {}", dwfl_errmsg(-1));
    return stacks;
  }
  const int64_t until_ns = now_ns() + limit_ms * 1'000'000;
  // ptrace is of a thread: what a thread that ends still traces goes on, also what stops only later. It does so when the
  // thread has left /proc; until then a waitpid() of this process could take a stop for an end.
  pid_t tracer = 0;
  std::thread([&] {
    tracer = gettid();
    read_stacks(dwfl.get(), until_ns, stacks);
  }).join();
  const std::string task = fmt::format("/proc/self/task/{}", tracer);
  while (access(task.c_str(), F_OK) == 0) std::this_thread::yield();
  return stacks;
}

}  // namespace athanor::launch::diagnosis
