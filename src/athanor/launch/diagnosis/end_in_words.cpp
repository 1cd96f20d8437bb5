#include "athanor/launch/diagnosis/end_in_words.h"

#include <fmt/core.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <utility>

#include "athanor/base/cgroup.h"

namespace athanor::launch::diagnosis {
namespace {

constexpr int kShellsOffset = 128;  // exit code of a shell whose command a signal has ended, less the signal
constexpr int kNotExecutable = 126, kNotFound = 127;

std::string name_of_signal(int number) {
  const char* name = sigabbrev_np(number);
  return fmt::format("SIG{}", name == nullptr ? "?" : name);
}

const char* meaning_of_signal(int number) {
  switch (number) {
    case SIGHUP:
      return "its terminal or session was closed";
    case SIGINT:
      return "somebody pressed Ctrl-C";
    case SIGQUIT:
      return "somebody asked it to quit with a core dump (Ctrl-\\)";
    case SIGILL:
      return "an instruction that this processor does not have: a program or library built for another one "
             "(train.isa, ATHANOR_MAX_ISA)";
    case SIGTRAP:
      return "a trap of a debugger without a debugger";
    case SIGABRT:
      return "the program gave up: an assertion, an exception that nobody caught, or damage found in its "
             "heap";
    case SIGBUS:
      return "a file or shared memory that it had mapped was cut short, or the disk or memory behind it is "
             "full "
             "(df, df /dev/shm), or the disk failed";
    case SIGFPE:
      return "an integer was divided by zero, or a result did not fit";
    case SIGSEGV:
      return "it touched memory that is not its own, or its stack was full: a fault of the program or of the "
             "machine's memory";
    case SIGPIPE:
      return "it wrote to a pipe or connection that nobody reads";
    case SIGALRM:
      return "a timer of its own ran out";
    case SIGTERM:
      return "somebody asked it to end: an operator, a batch system at the end of its time, or a shutdown";
    case SIGXCPU:
      return "its limit of processor time is used up (ulimit -t, or a batch system)";
    case SIGXFSZ:
      return "it wrote past the limit of a file's size (ulimit -f)";
    case SIGSYS:
      return "a system call that a filter (seccomp) forbids";
    default:
      return "";
  }
}

// A line "oom_kill 3".
std::optional<uint64_t> count_of_machine(const std::string& root) {
  std::ifstream in(root + "/proc/vmstat");
  std::string key;
  for (uint64_t value = 0; in >> key >> value;)
    if (key == "oom_kill") return value;
  return std::nullopt;
}

bool has_risen(const std::optional<uint64_t>& before, const std::optional<uint64_t>& now) {
  return before && now && *now > *before;
}

}  // namespace

std::string end_in_words(const ProcessEnd& end) {
  if (end.signal_number == 0) return fmt::format("exited with code {}", end.exit_code);
  return fmt::format("was killed by signal {} ({})", end.signal_number, name_of_signal(end.signal_number));
}

std::string meaning_of(const ProcessEnd& end) {
  if (end.signal_number != 0) return meaning_of_signal(end.signal_number);
  if (end.exit_code == kNotExecutable)
    return "the command was found and could not be run: no permission, or no program";
  if (end.exit_code == kNotFound) return "the command, or a library that it needs, was not found";
  const int number = end.exit_code - kShellsOffset;
  if (number <= 0 || sigabbrev_np(number) == nullptr) return "";
  const std::string meaning =
      number == SIGKILL ? "mostly by the kernel, for want of memory" : meaning_of_signal(number);
  return fmt::format("128 + {}: {} ended a process under it{}", number, name_of_signal(number),
                     meaning.empty() ? "" : ": " + meaning);
}

std::string meaning_of(KilledBy by) {
  switch (by) {
    case KilledBy::kernel:
      return "the kernel killed it for want of memory: the limit of its control group, or the machine's "
             "memory, is "
             "used up";
    case KilledBy::perhaps_kernel:
      return "the kernel killed a process for want of memory at that time, probably this one: see dmesg";
    case KilledBy::somebody:
      return "somebody killed it: the kernel has killed nothing for want of memory";
    case KilledBy::unknown:
      return "somebody killed it, or the kernel for want of memory: this system does not count such kills, "
             "see dmesg";
  }
  return "";
}

MemoryKills::MemoryKills(std::string root) : root_(std::move(root)) {
  explained_ = read();
}

MemoryKills::Counters MemoryKills::read() const {
  Counters counters{.of_machine = count_of_machine(root_)};
  for (const base::CgroupFolder& group : base::cgroup_folders(root_, "memory")) {
    // The innermost one that counts: a kill counts for the group of the process, whichever limit was reached.
    counters.of_group = group.entry(group.version == 2 ? "memory.events" : "memory.oom_control", "oom_kill");
    if (counters.of_group) break;
  }
  return counters;
}

KilledBy MemoryKills::ask() {
  const Counters now = read();
  if (has_risen(explained_.of_group, now.of_group)) {
    ++*explained_.of_group;
    if (explained_.of_machine) ++*explained_.of_machine;
    return KilledBy::kernel;
  }
  if (explained_.of_group && now.of_group) return KilledBy::somebody;
  if (!has_risen(explained_.of_machine, now.of_machine))
    return explained_.of_machine && now.of_machine ? KilledBy::somebody : KilledBy::unknown;
  ++*explained_.of_machine;
  return KilledBy::perhaps_kernel;
}

}  // namespace athanor::launch::diagnosis
