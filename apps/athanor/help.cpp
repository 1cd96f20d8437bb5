#include "help.h"

#include <CLI/CLI.hpp>
#include <cctype>

namespace athanor {
namespace {

// "INT:INT in [0 - 4096]" is a number; what a name stands for is the description's to say.
std::string placeholder(const CLI::Option& option) {
  std::string type = option.get_type_name().substr(0, option.get_type_name().find(':'));
  if (type == "INT" || type == "UINT") return "N";
  if (type == "FLOAT") return "X";
  return type;
}

constexpr const char* kLetters = "abcdefghijklmnopqrstuvwxyz";

// A positional that says in its type what to write: "-- train FILE.toml".
bool has_own_form(const CLI::Option& option) {
  return option.get_type_name() != "TEXT";
}

bool takes_several(const CLI::Option& option) {
  return option.get_expected_max() == CLI::detail::expected_max_vector_size;
}

class Formatter : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    return positional && has_own_form(*option) ? option->get_type_name()
                                               : CLI::Formatter::make_option_name(option, positional);
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_positional()) return takes_several(*option) && !has_own_form(*option) ? " ..." : "";
    return option->get_type_size() == 0 ? "" : " " + placeholder(*option);
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text = option->get_description();
    const std::string first = text.substr(0, text.find(' '));  // which may be a value, such as f32
    if (!first.empty() && first.find_first_not_of(kLetters) == std::string::npos)
      text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
    const std::string value = option->get_default_str();
    if (takes_several(*option) && !option->get_positional()) text += " (may be repeated)";
    if (option->get_required() && !option->get_positional()) text += " (required)";
    if (!value.empty() && text.find("(default") == std::string::npos) text += " (default: " + value + ")";
    for (const CLI::Option* other : option->get_needs()) text += "; needs " + other->get_name();
    for (const CLI::Option* other : option->get_excludes()) text += "; not with " + other->get_name();
    return text;
  }
  // Options that cannot be left out stand in the usage line, as in `-n N`.
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string text = "Usage: " + name;
    for (const CLI::Option* option : app->get_options(
             [](const CLI::Option* each) { return each->nonpositional() && each->get_required(); }))
      text += " " + option->get_name() + " " + placeholder(*option);
    text += " [OPTIONS]";
    for (const CLI::Option* option :
         app->get_options([](const CLI::Option* each) { return each->get_positional(); }))
      text += " " + make_option_name(option, true) +
              (takes_several(*option) && !has_own_form(*option) ? "..." : "");
    const auto subcommands = app->get_subcommands([](const CLI::App*) { return true; });
    return text + (subcommands.empty() ? "" : " SUBCOMMAND") + "\n";
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter() {
  auto formatter = std::make_shared<Formatter>();
  formatter->column_width(36);
  return formatter;
}

}  // namespace athanor
