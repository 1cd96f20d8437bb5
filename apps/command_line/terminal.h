// Where the program's output goes: the only code that asks about terminals and NO_COLOR.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "athanor/observe/console.h"
#include "console_stream.h"

namespace athanor::apps {

// A console on standard error (with --json standard output must stay one document) or standard output.
std::unique_ptr<Console> make_console(bool on_stderr, int64_t log_every);
// The same with text going to `stream`, which is standard error or standard output.
std::unique_ptr<Console> make_console(bool on_stderr, int64_t log_every,
                                      std::shared_ptr<ConsoleStream> stream);
bool is_terminal(std::FILE* out);

// Whether `out` is a terminal that can be drawn on; a dumb terminal is not.
bool is_terminal(std::FILE* out);

// The columns of the terminal behind `out`; a default width if it is no terminal.
size_t terminal_columns(std::FILE* out);

// The columns for plain text: 80 if there is no terminal; of a dumb terminal its width.
size_t console_columns(std::FILE* out);

std::string environment_value(const std::string& name);  // "" if it is not set

}  // namespace athanor::apps
