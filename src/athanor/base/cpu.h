// What the processor can do, read once from cpuid (and, for the tile registers, asked of the kernel).
#pragma once

#include <string>
#include <vector>

namespace athanor {

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
int max_threads();        // that may be asked for: beyond some per processor they only wait for each other

}  // namespace athanor
