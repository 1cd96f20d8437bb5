// The measurements of athanor-bench, one file each.
#pragma once

namespace CLI {
class App;
}

namespace athanor::apps {

void add_bench_attention(CLI::App& app);
void add_bench_checkpoint(CLI::App& app);
void add_bench_compression(CLI::App& app);
void add_bench_data(CLI::App& app);
void add_bench_faults(CLI::App& app);
void add_bench_gemm(CLI::App& app);
void add_bench_optimizer(CLI::App& app);
void add_bench_pipeline(CLI::App& app);
void add_bench_tokenizer(CLI::App& app);

}  // namespace athanor::apps
