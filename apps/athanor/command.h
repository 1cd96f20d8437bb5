// How a subcommand is added: one file per subcommand, each with one function that declares its options on the
// CLI11 app and sets a callback. A callback throws; main() turns what it throws into one message and an exit
// code:
//
//   0 ok    1 failed (Error, Recoverable)    2 wrong command line or config (ConfigError, CLI::ParseError)
//   75 interrupted after saving: start it again (train, launch)
//
// With --json a command prints exactly one JSON document to standard output; progress goes to standard error.
#pragma once

namespace CLI {
class App;
}

namespace athanor {

// Thrown by a command that has said all there is to say: ends the program with this code and no message.
struct Exit {
  int code;
};

void add_checkpoint(CLI::App& app);
void add_bench(CLI::App& app);
void add_dataset(CLI::App& app);
void add_doctor(CLI::App& app);
void add_evaluate(CLI::App& app);
void add_generate(CLI::App& app);
void add_init(CLI::App& app);
void add_launch(CLI::App& app);
void add_plot(CLI::App& app);
void add_schedule(CLI::App& app);
void add_tokenizer(CLI::App& app);
void add_train(CLI::App& app);
void add_verify(CLI::App& app);

}  // namespace athanor
