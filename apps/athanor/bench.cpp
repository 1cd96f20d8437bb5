// athanor bench: measures parts of the system; each checks its result before it times it.
#include "bench.h"

#include <CLI/CLI.hpp>

#include "command.h"

namespace athanor {

void add_bench(CLI::App& app) {
  CLI::App* sub =
      app.add_subcommand("bench", "Benchmark kernels, collectives and I/O against hardware limits");
  sub->require_subcommand(1);
  add_bench_step(*sub);
  add_bench_gemm(*sub);
  add_bench_attention(*sub);
  add_bench_optimizer(*sub);
  add_bench_comm(*sub);
  add_bench_compression(*sub);
  add_bench_pipeline(*sub);
  add_bench_data(*sub);
  add_bench_faults(*sub);
  add_bench_checkpoint(*sub);
}

}  // namespace athanor
