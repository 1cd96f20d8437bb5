#include "errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <regex>

#include "athanor/base/human.h"
#include "athanor/base/nearest.h"
#include "athanor/config/fields.h"
#include "athanor/config/peer_names.h"

namespace athanor::apps {
namespace {

struct Synonym {
  const char* theirs;
  const char* ours;
};

constexpr std::array kCommands = {
    Synonym{"eval", "evaluate"},
    Synonym{"test", "evaluate"},
    Synonym{"score", "evaluate"},
    Synonym{"perplexity", "evaluate"},
    Synonym{"ppl", "evaluate"},
    Synonym{"validate", "evaluate"},
    Synonym{"sample", "generate"},
    Synonym{"infer", "generate"},
    Synonym{"inference", "generate"},
    Synonym{"predict", "generate"},
    Synonym{"chat", "generate"},
    Synonym{"complete", "generate"},
    Synonym{"prompt", "generate"},
    Synonym{"export", "checkpoint export-hf"},
    Synonym{"convert", "checkpoint export-hf"},
    Synonym{"export-hf", "checkpoint export-hf"},
    Synonym{"import", "checkpoint import-hf"},
    Synonym{"import-hf", "checkpoint import-hf"},
    Synonym{"ckpt", "checkpoint"},
    Synonym{"finetune", "train"},
    Synonym{"fine-tune", "train"},
    Synonym{"sft", "train"},
    Synonym{"pretrain", "train"},
    Synonym{"fit", "train"},
    Synonym{"run", "train"},
    Synonym{"tokenize", "dataset build"},
    Synonym{"prepare", "dataset build"},
    Synonym{"preprocess", "dataset build"},
    Synonym{"torchrun", "launch"},
    Synonym{"mpirun", "launch"},
    Synonym{"distributed", "launch"},
    Synonym{"accelerate", "launch"},
    Synonym{"info", "doctor"},
    Synonym{"env", "doctor"},
    Synonym{"new", "init"},
    Synonym{"create", "init"},
    Synonym{"setup", "init"},
};

std::string path_of(const CLI::App& app) {
  return (app.get_parent() == nullptr ? "" : path_of(*app.get_parent()) + " ") + app.get_name();
}

const CLI::App* command_of(const CLI::App& app) {
  const CLI::App* current = &app;
  while (!current->get_subcommands().empty()) current = current->get_subcommands().front();
  return current;
}

// Without those that the program calls itself, which have no group.
std::vector<const CLI::App*> subcommands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* sub) { return !sub->get_group().empty(); });
}

bool has_option(const CLI::App& command, const std::string& name) {
  return command.get_option_no_throw(name) != nullptr;
}

// The first example of the command's help.
std::string example_of(const CLI::App& command) {
  const std::string footer = command.get_footer();
  const size_t start = footer.find("  athanor ");
  if (start == std::string::npos) return "see '" + path_of(command) + " --help'";
  return "for example: " + footer.substr(start + 2, footer.find('\n', start) - start - 2);
}

// "train.steps" for "train.steps", "steps", "max_steps"; "" for what no config has.
std::string setting_of(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  for (const auto& field : config_fields())
    if (field.key() == name || field.name == name) return field.key();
  const size_t dot = name.rfind('.');
  const PeerKey peer =
      find_peer_key(dot == std::string::npos ? "" : name.substr(0, dot), name.substr(dot + 1));
  return peer.ours == nullptr ? "" : peer.ours;
}

// --resume, --config x.toml, optimizer.lr=1e-3, --learning_rate 1e-3
std::string hint_for_word(const CLI::App& command, const std::string& word) {
  const bool option = word.starts_with('-');
  const std::string name = word.substr(std::min(word.size(), word.find_first_not_of('-')), std::string::npos);
  const std::string bare = name.substr(0, name.find('='));
  const bool takes_config = has_option(command, "FILE.toml");
  if (option && takes_config && (bare.starts_with("resume") || bare == "continue" || bare == "load"))
    return "the same command again resumes a run from its newest checkpoint";
  if (option && takes_config && (bare == "config" || bare == "c" || bare == "config_file" || bare == "file"))
    return "the config is given bare: " + path_of(command) + " FILE.toml";
  if (option &&
      (bare == "n" || bare == "ranks" || bare == "nproc_per_node" || bare == "gpus" || bare == "devices") &&
      command.get_name() == "train")
    return "several ranks are started by 'launch': athanor launch -n 2 -- train FILE.toml";
  if (!has_option(command, "--set") || (!option && name.find('=') == std::string::npos)) return "";
  const std::string key = setting_of(bare);
  if (key.empty()) return "";
  const std::string value = name.find('=') == std::string::npos ? "=VALUE" : name.substr(name.find('='));
  return "settings are given with --set: --set " + key + printable(value);
}

CommandLineError unknown_word(const CLI::App& command, const std::string& word) {
  std::vector<std::string> names;
  for (const auto* sub : subcommands_of(command)) names.push_back(sub->get_name());
  const bool has_commands = !names.empty();
  for (const auto* option : command.get_options())
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  const char* const kind = word.starts_with('-') ? "option" : has_commands ? "command" : "argument";
  CommandLineError error{fmt::format("{}: unknown {} '{}'", path_of(command), kind, printable(word)), ""};
  error.hint = hint_for_word(command, word);
  if (!error.hint.empty()) return error;
  if (has_commands && (word == "resume" || word == "continue")) {
    error.hint = "the same 'athanor train FILE.toml' again resumes a run from its newest checkpoint";
    return error;
  }
  for (const Synonym& synonym : kCommands)
    if (has_commands && command.get_parent() == nullptr && word == synonym.theirs) {
      error.hint = fmt::format("Athanor calls it '{}': athanor {} --help", synonym.ours, synonym.ours);
      return error;
    }
  const std::string nearest = nearest_name(word, names);
  error.hint =
      !nearest.empty() ? "did you mean '" + nearest + "'?"
      : has_commands
          ? fmt::format("the commands are {}",
                        fmt::join(names.begin(),
                                  std::find_if(names.begin(), names.end(),
                                               [](const std::string& name) { return name.starts_with('-'); }),
                                  ", "))
          : "see '" + path_of(command) + " --help'";
  return error;
}

// "0.000000" is "0", "1e-09" stays.
std::string number_text(const std::string& text) {
  if (text.find('.') == std::string::npos || text.find('e') != std::string::npos) return text;
  const std::string trimmed = text.substr(0, text.find_last_not_of('0') + 1);
  return trimmed.ends_with('.') ? trimmed.substr(0, trimmed.size() - 1) : trimmed;
}

// What CLI11 says of a value, told as "--batch: got 0, expected at least 1".
std::string value_text(const CLI::App& command, const std::string& what) {
  std::smatch match;
  static const std::regex range("(\\S+): Value (.*) not in range (\\S+) to (\\S+)");
  static const std::regex conversion("Could not convert: (\\S+) = (.*)");
  static const std::regex missing("(\\S+): 1 required (\\S+) missing");
  static const std::regex excludes("(\\S+) excludes (\\S+)");
  static const std::regex needs("(\\S+) requires (\\S+)");
  const auto type_of = [&](const std::string& name) {
    const CLI::Option* option = command.get_option_no_throw(name);
    return option == nullptr ? std::string() : option->get_type_name();
  };
  const auto is_whole = [](const std::string& type) {
    return type.starts_with("INT") || type.starts_with("UINT");
  };
  if (std::regex_match(what, match, range)) {
    const std::string type = type_of(match[1]), value = match[2];
    const bool number = !value.empty() && value.find_first_not_of("+-.0123456789eE") == std::string::npos;
    static const std::regex limits(".* in \\[(\\S+) - (\\S+)\\]");  // exact, unlike the message
    std::smatch bounds;
    const bool exact = std::regex_search(type, bounds, limits);
    const std::string low = exact ? bounds[1].str() : number_text(match[3]),
                      high = exact ? bounds[2].str() : number_text(match[4]);
    const std::string expected = type.find("NONNEGATIVE") != std::string::npos ? "at least 0"
                                 : type.find("POSITIVE") != std::string::npos
                                     ? (is_whole(type) ? "at least 1" : "a number above 0")
                                 : high.size() > 6 ? "at least " + low
                                                   : "a number from " + low + " to " + high;
    return fmt::format("{}: got {}, expected {}{}", match[1].str(),
                       number ? value : "'" + printable(value) + "'",
                       number || expected.starts_with("a ") ? "" : "a number, ", expected);
  }
  if (std::regex_match(what, match, conversion))
    return fmt::format("{}: got '{}', expected {}", match[1].str(), printable(match[2].str()),
                       is_whole(type_of(match[1])) ? "an integer" : "a number");
  if (std::regex_match(what, match, missing))
    return fmt::format("{}: got nothing behind it, expected {}", match[1].str(), match[2].str());
  if (std::regex_match(what, match, excludes))
    return fmt::format("{} and {} do not go together", match[1].str(), match[2].str());
  if (std::regex_match(what, match, needs))
    return fmt::format("{} has an effect with {} only", match[1].str(), match[2].str());
  return what;
}

std::string option_text(const CLI::App& command, const std::string& name) {
  const CLI::Option* option = command.get_option_no_throw(name);
  if (option == nullptr || option->get_positional()) return name;
  const std::string letter = option->get_snames().empty() ? "" : "-" + option->get_snames().front() + ",";
  const std::string type = option->get_type_name().substr(0, option->get_type_name().find(':'));
  return letter + name + (type.empty() ? "" : " " + type);
}

}  // namespace

CommandLineError explain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = *command_of(app);
  const std::string what = error.what(), name = path_of(command);
  auto words = command.remaining();
  std::erase(words, "--");
  const auto code = static_cast<CLI::ExitCodes>(error.get_exit_code());  // its name may be the subcommand's
  const bool unknown = code == CLI::ExitCodes::ExtrasError || code == CLI::ExitCodes::RequiredError;
  if (unknown && !words.empty()) return unknown_word(command, words[0]);
  constexpr std::string_view kRequired = " is required";
  if (what == "A subcommand is required") {
    std::vector<std::string> names;
    for (const auto* sub : subcommands_of(command)) names.push_back(sub->get_name());
    return {name + ": got no command, expected one of " + fmt::format("{}", fmt::join(names, ", ")),
            example_of(command)};
  }
  if (what.ends_with(kRequired))
    return {fmt::format("{}: {} is missing", name,
                        option_text(command, what.substr(0, what.size() - kRequired.size()))),
            example_of(command)};
  return {value_text(command, what), "see '" + name + " --help'"};
}

}  // namespace athanor::apps
