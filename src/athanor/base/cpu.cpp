#include "athanor/base/cpu.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>

#include "athanor/base/check.h"
#include "athanor/base/cpu_limits.h"

namespace athanor::base {
namespace {
// The kernel hands out the tile registers on request only (arch_prctl ARCH_REQ_XCOMP_PERM, XTILEDATA).
bool request_amx() {
  constexpr long kArchReqXcompPerm = 0x1023, kXfeatureXtiledata = 18;
  return ::syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureXtiledata) == 0;
}

bool cpu_flag(const std::string& flag) {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("flags", 0) == 0) return (line + " ").find(" " + flag + " ") != std::string::npos;
  return false;
}

Isa detect() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2"))
    return Isa::generic;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vl"))
    return Isa::avx2;
  if (!cpu_flag("avx512_bf16")) return Isa::avx512;
  return cpu_flag("amx_bf16") && cpu_flag("amx_tile") && request_amx() ? Isa::amx : Isa::avx512_bf16;
}
}  // namespace

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::generic:
      return "generic";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::avx512_bf16:
      return "avx512_bf16";
    case Isa::amx:
      return "amx";
  }
  return "?";
}

std::vector<Isa> all_isas() {
  return {Isa::generic, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx};
}

Isa parse_isa(const std::string& name) {
  for (const Isa isa : all_isas())
    if (name == isa_name(isa)) return isa;
  fail("instruction set: got '{}', expected generic, avx2, avx512, avx512_bf16 or amx", name);
}

Isa best_isa() {
  static const Isa best = detect();  // a fact of the machine, not state
  return best;
}

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown";
}

int max_threads() {
  constexpr int kPerProcessor = 16;
  return kPerProcessor * num_usable_cpus();
}

int num_usable_cpus() {
  return read_cpu_limits().usable();
}

}  // namespace athanor::base
