#include "apps/command_line/program.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "apps/command_line/errors.h"
#include "apps/command_line/help.h"
#include "apps/command_line/terminal.h"
#include "athanor/base/error.h"

namespace athanor::apps {
namespace {

int report(const CLI::App& app, const std::string& what, const std::string& hint, int code) {
  std::fprintf(stderr, "%s: error: %s\n", app.get_name().c_str(), what.c_str());
  if (!hint.empty()) std::fprintf(stderr, "  hint: %s\n", hint.c_str());
  return code;
}

// CLI11 takes a number too large for 64 bits for the largest one, and -1 for the largest without a sign.
std::string check_number(const std::string& text, bool is_signed) {
  if (text.find_first_not_of("+-0123456789") != std::string::npos) return "";
  errno = 0;
  if (is_signed) {
    std::strtoll(text.c_str(), nullptr, 10);
  } else {
    std::strtoull(text.c_str(), nullptr, 10);
    if (text.starts_with('-')) return "got " + text + ", expected at least 0";
  }
  return errno == ERANGE ? "got " + text + ", expected a smaller number" : "";
}

void check_numbers(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    for (const bool is_signed : {true, false})
      if (option->get_type_name().starts_with(is_signed ? "INT" : "UINT"))
        option->check([is_signed](const std::string& text) { return check_number(text, is_signed); });
  for (CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; })) check_numbers(*sub);
}

// `athanor help train` is `athanor train --help`, `athanor version` is `athanor --version`.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (!words.empty() && words[0] == "version") words[0] = "--version";
  if (!words.empty() && words[0] == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  std::reverse(words.begin(), words.end());  // as CLI11 takes them from a vector
  return words;
}

// A closed standard stream would lend its number to the next file, and that would get what is printed.
void open_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) std::_Exit(1);
}

// A result that nobody got, because the disk behind standard output is full, is a failure.
int flush_output(const CLI::App& app) {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout) return 0;
  return report(app, "standard output: what was printed could not be written", "", 1);
}

}  // namespace

void prepare_program(CLI::App& app) {
  open_standard_streams();
  // hwloc's plug-ins look for displays and devices, which takes longer than all else at start.
  ::setenv("HWLOC_PLUGINS_PATH", "", 0);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error with a name, not a silent end
  app.require_subcommand(1);
  app.set_version_flag("--version", ATHANOR_VERSION);
  app.formatter(help_formatter(console_columns(stdout)));
}

int run_program(CLI::App& app, int argc, char** argv) {
  check_numbers(app);
  try {
    app.parse(words_of(argc, argv));
    return flush_output(app);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    const CommandLineError wrong = explain(app, error);
    return report(app, wrong.what, wrong.hint, 2);
  } catch (const Exit& exit) {
    return exit.code;
  } catch (const ConfigError& error) {
    return report(app, error.what(), error.hint(), 2);
  } catch (const Failure& error) {
    return report(app, error.what(), error.hint(), 1);
  } catch (const std::bad_alloc&) {
    return report(app, "out of memory: one of the sizes asked for is larger than this machine", "", 1);
  } catch (const std::exception& error) {
    return report(app, error.what(), "", 1);
  }
}

}  // namespace athanor::apps
