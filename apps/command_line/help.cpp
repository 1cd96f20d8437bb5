#include "help.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "athanor/base/columns.h"
#include "athanor/base/human.h"

namespace athanor::apps {
namespace {

// "INT:INT in [0 - 4096]" is a number, what follows is the check's; "ADDRESS[:PORT]" is a name.
std::string without_checks(const std::string& type) {
  int depth = 0;
  for (size_t i = 0; i < type.size(); ++i) {
    if (type[i] == '[') ++depth;
    if (type[i] == ']') --depth;
    if (type[i] == ':' && depth == 0) return type.substr(0, i);
  }
  return type;
}

// What a name stands for is the description's to say.
std::string placeholder(const CLI::Option& option) {
  std::string type = without_checks(option.get_type_name());
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

constexpr size_t kTextColumn = 26;

// The end of the paragraph that starts at `first`: an indented line is one of its own, what is not indented goes on.
size_t end_of_paragraph(const std::string& text, size_t first) {
  size_t end = std::min(text.find('\n', first), text.size());
  if (first == end || text[first] == ' ') return end;
  while (end + 1 < text.size() && text[end + 1] != ' ' && text[end + 1] != '\n')
    end = std::min(text.find('\n', end + 1), text.size());
  return end;
}

// Paragraphs at the width of the window, the later lines of an indented one under its first word.
std::string wrapped_lines(const std::string& text, size_t columns) {
  std::string out;
  for (size_t first = 0; first <= text.size();) {
    const size_t end = end_of_paragraph(text, first);
    std::string line = text.substr(first, end - first);
    std::replace(line.begin(), line.end(), '\n', ' ');
    const size_t indent = std::min(line.find_first_not_of(' '), line.size());
    std::string before = line.substr(0, indent);
    for (const std::string& piece :
         wrap_columns(line.substr(indent), columns - std::min(columns / 2, indent))) {
      out += before + piece + "\n";
      before = std::string(indent + (indent > 0 ? 2 : 0), ' ');
    }
    first = end + 1;
  }
  return out;
}

class Formatter : public CLI::Formatter {
 public:
  explicit Formatter(size_t columns) : columns_(std::max<size_t>(columns, 40)) {}

  std::string make_option(const CLI::Option* option, bool positional) const override {
    return entry(make_option_name(option, positional) + make_option_opts(option), make_option_desc(option));
  }
  std::string make_subcommand(const CLI::App* sub) const override {
    return entry(sub->get_display_name(true), sub->get_description());
  }
  std::string make_description(const CLI::App* app) const override {
    return wrapped_lines(app->get_description(), columns_);
  }
  std::string make_footer(const CLI::App* app) const override {
    return app->get_footer().empty() ? "" : wrapped_lines(app->get_footer(), columns_);
  }
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
    return wrapped_lines(text + (subcommands.empty() ? "" : " SUBCOMMAND"), columns_);
  }

 private:
  // The text beside the name, or below one that is too long.
  std::string entry(const std::string& name, std::string text) const {
    constexpr size_t kNarrowest = 20;
    std::replace(text.begin(), text.end(), '\n', ' ');
    std::string out = "  " + name;
    if (text.empty()) return out + "\n";
    const size_t room = std::max(kNarrowest, columns_ - kTextColumn);
    if (display_width(out) + 2 > kTextColumn)
      out += "\n" + std::string(kTextColumn, ' ');
    else
      out = pad_columns(out, kTextColumn);
    std::string before;
    for (const std::string& piece : wrap_columns(text, room)) {
      out += before + piece + "\n";
      before = std::string(kTextColumn, ' ');
    }
    return out;
  }

  size_t columns_;
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter(size_t columns) {
  return std::make_shared<Formatter>(columns);
}

}  // namespace athanor::apps
