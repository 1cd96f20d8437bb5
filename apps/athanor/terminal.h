// What the program knows about where its output goes: the one place that asks for terminals and NO_COLOR.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "athanor/observe/console.h"
#include "console_stream.h"

namespace athanor {

// A console on standard error (with --json standard output must stay one document) or standard output.
std::unique_ptr<Console> make_console(bool on_stderr, int64_t log_every);
// The same whose text goes to `stream`, which is that of standard error or output.
std::unique_ptr<Console> make_console(bool on_stderr, int64_t log_every,
                                      std::shared_ptr<ConsoleStream> stream);
bool is_terminal(std::FILE* out);

// One that can be drawn on: a dumb one cannot.
bool is_terminal(std::FILE* out);

// How wide the terminal behind `out` is; a plain width where it is none.
size_t terminal_columns(std::FILE* out);

// The same for text that is read rather than looked at: 80 where there is no terminal, the width of a dumb one.
size_t console_columns(std::FILE* out);

std::string environment_value(const std::string& name);  // "" where it is not set

}  // namespace athanor
