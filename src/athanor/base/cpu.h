// What the processor can do. Read once from cpuid; for AMX tile registers the operating system is asked, too.
#pragma once

#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::base {

// Instruction sets that kernels are written for, from the plainest up. Each contains those before it.
enum class Isa {
  generic,  // x86-64-v2, what the whole program is compiled for
  avx2,     // x86-64-v3: AVX2, FMA, F16C
  avx512,   // x86-64-v4: AVX-512 F, BW, CD, DQ, VL
  avx512_bf16,
  amx,  // AMX tiles with bf16
};

const char* isa_name(Isa isa);
Isa parse_isa(const std::string& name);  // Error naming the known ones
Isa best_isa();                          // the highest that this machine and its kernel allow
std::vector<Isa> all_isas();

std::string cpu_model();  // "Intel(R) Xeon(R) ..."
int num_usable_cpus();    // processors this process may run on (affinity and cgroup quota)
int max_threads();        // the most threads that a setting may ask for: some per processor

}  // namespace athanor::base
