// The measurements of `athanor bench`, one file each. More measurements are in the program athanor-bench.
#pragma once

namespace CLI {
class App;
}

namespace athanor::apps {

void add_bench_step(CLI::App& bench);
void add_bench_comm(CLI::App& bench);

}  // namespace athanor::apps
