// Explains a wrong command line: the wrong word, what was expected, and what was probably meant.
//
//   const CommandLineError error = explain(app, parse_error);
//   // {"athanor train: unknown option '--resume'", "the same ..."}
//
// For options and commands of other programs (eval, --resume, --learning_rate) the message names ours. Thread rule:
// pure functions.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace athanor::apps {

struct CommandLineError {
  std::string what, hint;
};

CommandLineError explain(const CLI::App& app, const CLI::ParseError& error);

}  // namespace athanor::apps
