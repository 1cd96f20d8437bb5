// athanor-bench: measures parts of athanor against peers and the limits of the hardware; each checks its result before it
// times it. What a user measures, steps and collectives, is `athanor bench`.
#include <CLI/CLI.hpp>

#include "apps/command_line/program.h"
#include "bench.h"

int main(int argc, char** argv) {
  using namespace athanor::apps;
  CLI::App app{"athanor-bench measures parts of athanor against peers and the limits of the hardware.",
               "athanor-bench"};
  prepare_program(app);
  add_bench_gemm(app);
  add_bench_attention(app);
  add_bench_optimizer(app);
  add_bench_compression(app);
  add_bench_pipeline(app);
  add_bench_data(app);
  add_bench_faults(app);
  add_bench_checkpoint(app);
  add_bench_tokenizer(app);
  app.footer("athanor-bench MEASUREMENT --help tells more; docs/performance.md says what they show.");
  return run_program(app, argc, argv);
}
