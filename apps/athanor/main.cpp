// athanor: trains large language models, from raw text to an evaluated model.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "athanor/base/error.h"
#include "athanor/base/nearest.h"
#include "command.h"

namespace {

int report(const std::string& what, const std::string& hint, int code) {
  std::fprintf(stderr, "athanor: error: %s\n", what.c_str());
  if (!hint.empty()) std::fprintf(stderr, "  hint: %s\n", hint.c_str());
  return code;
}

// CLI11's own messages, with the nearest subcommand or option where a name is unknown.
std::string command_line_hint(const CLI::App& app, const CLI::ParseError& error,
                              const std::string& argument) {
  if (error.get_name() != "ExtrasError" && error.get_name() != "RequiredError") return "see 'athanor --help'";
  std::vector<std::string> names;
  const CLI::App* current = &app;
  for (const auto* sub : app.get_subcommands()) current = sub;
  for (const auto* sub : current->get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  for (const auto* option : current->get_options())
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  const std::string nearest = athanor::nearest_name(argument, names);
  return nearest.empty() ? "see 'athanor --help'" : "did you mean '" + nearest + "'?";
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"athanor trains large language models, from raw text to an evaluated model.", "athanor"};
  app.require_subcommand(1);
  app.set_version_flag("--version", ATHANOR_VERSION);
  app.get_formatter()->column_width(36);
  athanor::add_tokenizer(app);
  athanor::add_dataset(app);
  athanor::add_train(app);
  athanor::add_launch(app);
  athanor::add_evaluate(app);
  athanor::add_generate(app);
  athanor::add_checkpoint(app);
  athanor::add_bench(app);
  athanor::add_doctor(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    const std::string argument = argc > 1 ? argv[error.get_name() == "ExtrasError" ? argc - 1 : 1] : "";
    return report(error.what(), command_line_hint(app, error, argument), 2);
  } catch (const athanor::Exit& exit) {
    return exit.code;
  } catch (const athanor::ConfigError& error) {
    return report(error.what(), error.hint(), 2);
  } catch (const athanor::Failure& error) {
    return report(error.what(), error.hint(), 1);
  } catch (const std::exception& error) {
    return report(error.what(), "", 1);
  }
}
