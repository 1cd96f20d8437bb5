// What is wrong with a command line, in our words: the word that is wrong, what was expected, and what was probably meant.
//
//   const CommandLineError error = explain(app, parse_error);   // {"athanor train: unknown option '--resume'", "the same ..."}
//
// Words of other programs (eval, --resume, --learning_rate) lead to ours. Thread rule: pure functions.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace athanor {

struct CommandLineError {
  std::string what, hint;
};

CommandLineError explain(const CLI::App& app, const CLI::ParseError& error);

}  // namespace athanor
