// The frame of a program with subcommands: what it does before and after the chosen command.
//
//   int main(int argc, char** argv) {
//     CLI::App app{"athanor trains large language models.", "athanor"};
//     add_train(app);                                  // declares options, sets a callback
//     return run_program(app, argc, argv);
//   }
//
// A callback throws on failure; run_program turns the exception into one message on standard error and an exit code:
//   0 ok    1 failed (Error, Recoverable)    2 wrong command line or config (ConfigError, CLI::ParseError)
//   75 interrupted after saving: start it again (train, launch)
// With --json a command prints exactly one JSON document to standard output; progress goes to standard error.
#pragma once

namespace CLI {
class App;
}

namespace athanor::apps {

// Thrown by a command that has printed its message itself: ends the program with this code and no further message.
struct Exit {
  int code;
};

// Adds --version and formats --help. Call it before the subcommands are added.
void prepare_program(CLI::App& app);
int run_program(CLI::App& app, int argc, char** argv);

}  // namespace athanor::apps
