// The subcommands of athanor. Each has a file with one function, which declares its options on the CLI11 app and sets a
// callback. apps/command_line/program.h turns exceptions of the callback into messages.
#pragma once

namespace CLI {
class App;
}

namespace athanor::apps {

void add_attention(CLI::App& app);
void add_checkpoint(CLI::App& app);
void add_bench(CLI::App& app);
void add_chaos(CLI::App& app);
void add_corpus(CLI::App& app);
void add_ctl(CLI::App& app);
void add_dataset(CLI::App& app);
void add_doctor(CLI::App& app);
void add_evaluate(CLI::App& app);
void add_generate(CLI::App& app);
void add_init(CLI::App& app);
void add_launch(CLI::App& app);
void add_plot(CLI::App& app);
void add_report(CLI::App& app);
void add_schedule(CLI::App& app);
void add_tokenizer(CLI::App& app);
void add_train(CLI::App& app);
void add_verify(CLI::App& app);

}  // namespace athanor::apps
