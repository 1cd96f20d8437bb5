// athanor bench: measures training steps and collectives; each checks its result before it times it.
#include "bench.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "athanor/base/error.h"
#include "command.h"

namespace athanor::apps {

void add_bench(CLI::App& app) {
  CLI::App* sub =
      app.add_subcommand("bench", "Measure training steps and collectives against hardware limits");
  sub->require_subcommand(1);
  add_bench_step(*sub);
  add_bench_comm(*sub);
  for (const char* moved :
       {"attention", "checkpoint", "compression", "data", "faults", "gemm", "optimizer", "pipeline"}) {
    CLI::App* other = sub->add_subcommand(moved)->group("")->allow_extras()->prefix_command();
    other->callback([moved] {
      throw ConfigError(fmt::format("bench: got '{}', expected step or comm", moved),
                        fmt::format("the program athanor-bench has it: athanor-bench {}", moved));
    });
  }
  sub->footer("Kernels, checkpoints, data, compression, pipelines and faults: athanor-bench --help.");
}

}  // namespace athanor::apps
