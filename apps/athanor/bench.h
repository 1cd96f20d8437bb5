// The measurements of `athanor bench`, one file each.
#pragma once

namespace CLI {
class App;
}

namespace athanor {

void add_bench_attention(CLI::App& bench);
void add_bench_checkpoint(CLI::App& bench);
void add_bench_data(CLI::App& bench);
void add_bench_faults(CLI::App& bench);
void add_bench_gemm(CLI::App& bench);
void add_bench_optimizer(CLI::App& bench);
void add_bench_pipeline(CLI::App& bench);
void add_bench_step(CLI::App& bench);
void add_bench_comm(CLI::App& bench);
void add_bench_compression(CLI::App& bench);

}  // namespace athanor
