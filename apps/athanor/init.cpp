// athanor init [FILE.toml]: a commented config, written out of nothing; or the page of all settings.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "apps/command_line/print.h"
#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/base/human.h"
#include "athanor/config/presets.h"
#include "athanor/config/settings_page.h"
#include "athanor/config/template.h"
#include "command.h"

namespace athanor::apps {
namespace {

struct InitCommand {
  std::string file = "run.toml", preset = "llama-tiny";
  bool settings = false, json = false;

  void run() const {
    if (settings) return print(settings_page());
    Env& env = system_env();
    const std::string text = config_template(preset);
    if (env.exists(file))
      throw ConfigError(fmt::format("init: '{}' exists, and is left as it is", printable(file)),
                        "give another name: athanor init other.toml");
    env.write_atomically(file, text);
    if (json) return print_json(Json{{"file", file}, {"preset", preset}});
    print(fmt::format(
        "wrote {} with preset {}. Next:\n"
        "  athanor tokenizer train --type byte-bpe --vocab-size 8192 --output data/tokenizer.json "
        "data/text\n"
        "  athanor train {}\n",
        printable(file), preset, printable(file)));
  }
};

}  // namespace

void add_init(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("init", "Write a commented config to start from");
  auto command = std::make_shared<InitCommand>();
  sub->add_option("FILE.toml", command->file, "The file to write, which must not exist")
      ->capture_default_str();
  sub->add_option("--preset", command->preset,
                  fmt::format("Named sizes of the model:\n{}", fmt::join(preset_names(), ", ")))
      ->type_name("NAME")
      ->capture_default_str();
  sub->add_flag("--settings", command->settings,
                "Print the page of all settings (docs/settings.md) and write no file");
  sub->add_flag("--json", command->json, "Print one JSON document");
  sub->footer(
      "Examples:\n"
      "  athanor init\n"
      "  athanor init gpt2.toml --preset gpt2-124m\n"
      "\n"
      "In the file, model.config = \"config.json\" takes the sizes of a Hugging Face model in place of a "
      "preset.\n"
      "\n"
      "Exit codes: 0 ok, 1 failed, 2 wrong command line, or the file exists.");
  sub->callback([command] { command->run(); });
}

}  // namespace athanor::apps
