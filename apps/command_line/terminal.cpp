#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <utility>

namespace athanor::apps {

bool is_terminal(std::FILE* out) {
  return isatty(fileno(out)) == 1 && environment_value("TERM") != "dumb";
}

std::string environment_value(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

size_t terminal_columns(std::FILE* out) {
  winsize size{};
  const bool sized = is_terminal(out) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 20;
  return sized ? size.ws_col : size_t{120};
}

size_t console_columns(std::FILE* out) {
  winsize size{};
  const bool sized = ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 20;
  return sized ? size.ws_col : size_t{80};
}

namespace {

std::unique_ptr<Console> console_that(std::function<void(std::string_view)> write, bool on_stderr,
                                      int64_t log_every) {
  std::FILE* out = on_stderr ? stderr : stdout;
  const bool terminal = is_terminal(out);
  std::string locale = environment_value("LC_ALL");
  if (locale.empty()) locale = environment_value("LC_CTYPE");
  if (locale.empty()) locale = environment_value("LANG");
  const bool utf8 = locale.find("UTF-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  return std::make_unique<Console>(ConsoleOptions{
      .write = std::move(write),
      .is_terminal = terminal,
      .color = terminal && environment_value("NO_COLOR").empty(),
      .utf8 = utf8,
      .log_every = log_every,
      .columns = [out] { return console_columns(out); },
  });
}

}  // namespace

std::unique_ptr<Console> make_console(bool on_stderr, int64_t log_every) {
  const auto write = [out = on_stderr ? stderr : stdout](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), out);
    std::fflush(out);
  };
  return console_that(write, on_stderr, log_every);
}

std::unique_ptr<Console> make_console(bool on_stderr, int64_t log_every,
                                      std::shared_ptr<ConsoleStream> stream) {
  return console_that([stream = std::move(stream)](std::string_view text) { stream->write(text); }, on_stderr,
                      log_every);
}

}  // namespace athanor::apps
