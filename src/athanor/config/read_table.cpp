#include "athanor/config/read_table.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/base/human.h"
#include "athanor/base/nearest.h"

namespace athanor::config {
namespace {

std::string in_quotes(std::string_view text) {
  constexpr size_t kShown = 60;
  const std::string safe = printable(text);
  return display_width(safe) <= kShown ? fmt::format("'{}'", safe)
                                       : fmt::format("'{}...'", fit_columns(safe, kShown));
}

std::string describe(const toml::node& node) {
  if (const auto* text = node.as_string()) return "the string " + in_quotes(text->get());
  if (const auto* integer = node.as_integer()) return fmt::format("the integer {}", integer->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("the float {}", number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (node.is_array()) return "an array";
  if (node.is_table()) return "a table";
  return "a date or time";
}

double number_of(const toml::node& node, const std::string& where, const std::string& key,
                 std::string_view expected) {
  if (const auto* whole = node.as_integer()) return static_cast<double>(whole->get());
  if (!node.is_floating_point()) refuse_type(node, where, key, expected);
  return node.as_floating_point()->get();
}

int64_t integer_of(const toml::node& node, const Traits& traits, const std::string& where,
                   const std::string& key) {
  if (traits.is_bytes && node.is_string())
    if (const auto size_bytes = parse_bytes(node.as_string()->get())) return *size_bytes;
  if (!node.is_integer())
    refuse_type(node, where, key,
                traits.auto_is_zero ? "\"auto\" or an integer"
                : traits.is_bytes   ? "bytes: an integer, or a text like \"2GiB\""
                                    : "an integer");
  return node.as_integer()->get();
}

const toml::array& array_of(const toml::node& node, const std::string& where, const std::string& key,
                            std::string_view expected) {
  if (!node.is_array()) refuse_type(node, where, key, expected);
  return *node.as_array();
}

}  // namespace

void refuse_type(const toml::node& node, const std::string& where, const std::string& key,
                 std::string_view expected) {
  const bool wants_text = expected == "a string" && (node.is_number() || node.is_boolean());
  throw ConfigError(
      fmt::format("{}: {}: got {}, expected {}", where, key, describe(node), expected),
      wants_text ? "put the value into double quotes (and those into single quotes in a shell)" : "");
}

void refuse_key(const std::string& where, const std::string& owner, std::string_view name,
                const std::vector<std::string>& known) {
  const std::string nearest = nearest_name(name, known);
  throw ConfigError(fmt::format("{}: unknown key '{}.{}'{}", where, owner, printable(name),
                                nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest)),
                    fmt::format("{} has {}", owner, fmt::join(known, ", ")));
}

std::string line_of(const TableSource& source, const toml::node& node) {
  return fmt::format("{}:{}", source.file, node.source().begin.line);
}

void read_slot(const Slot& slot, const Traits& traits, const std::string& key, const toml::node& node,
               const std::string& where) {
  if (auto* const* text = std::get_if<std::string*>(&slot)) {
    if (!node.is_string()) refuse_type(node, where, key, "a string");
    **text = node.as_string()->get();
    for (const auto& [alias, ours] : traits.aliases)
      if (**text == alias) **text = ours;
  } else if (auto* const* whole = std::get_if<int64_t*>(&slot)) {
    const bool is_auto = traits.auto_is_zero && node.is_string() && node.as_string()->get() == "auto";
    // Zero stands for "auto" inside the program only.
    if (traits.auto_is_zero && node.is_integer() && node.as_integer()->get() == 0)
      refuse_type(node, where, key, "\"auto\" or an integer of at least 1");
    **whole = is_auto ? 0 : integer_of(node, traits, where, key);
  } else if (auto* const* natural = std::get_if<uint64_t*>(&slot)) {
    const int64_t value = integer_of(node, traits, where, key);
    if (value < 0) refuse_type(node, where, key, "at least 0");
    **natural = static_cast<uint64_t>(value);
  } else if (auto* const* real = std::get_if<double*>(&slot)) {
    **real = number_of(node, where, key, "a number");
  } else if (auto* const* flag = std::get_if<bool*>(&slot)) {
    if (!node.is_boolean()) refuse_type(node, where, key, "true or false");
    **flag = node.as_boolean()->get();
  } else if (auto* const* numbers = std::get_if<std::vector<double>*>(&slot)) {
    constexpr std::string_view kExpected = "an array of numbers";
    const toml::array& array = array_of(node, where, key, kExpected);
    (*numbers)->clear();
    for (const auto& element : array) (*numbers)->push_back(number_of(element, where, key, kExpected));
  } else if (auto* const* integers = std::get_if<std::vector<int64_t>*>(&slot)) {
    constexpr std::string_view kExpected = "an array of integers";
    const toml::array& array = array_of(node, where, key, kExpected);
    (*integers)->clear();
    for (const auto& element : array) {
      if (!element.is_integer()) refuse_type(element, where, key, kExpected);
      (*integers)->push_back(element.as_integer()->get());
    }
  } else if (auto* const* texts = std::get_if<std::vector<std::string>*>(&slot)) {
    constexpr std::string_view kExpected = "an array of strings";
    const toml::array& array = array_of(node, where, key, kExpected);
    (*texts)->clear();
    for (const auto& element : array) {
      if (!element.is_string()) refuse_type(element, where, key, kExpected);
      (*texts)->push_back(element.as_string()->get());
    }
  }
}

void check_slot(const Slot& slot, const Traits& traits, const std::string& key, const std::string& where) {
  const auto check_number = [&](long double value) {
    const bool is_auto = traits.auto_is_zero && value == 0;
    if (!is_auto && !traits.range.contains(value))
      throw ConfigError(fmt::format("{}: {}: got {}, expected {}", where, key, static_cast<double>(value),
                                    traits.range.expected(value)));
  };
  if (auto* const* text = std::get_if<std::string*>(&slot)) {
    const auto& choices = traits.choices;
    if (choices.empty() || std::find(choices.begin(), choices.end(), **text) != choices.end()) return;
    const std::string nearest = nearest_name(**text, choices);
    throw ConfigError(fmt::format("{}: {}: got {}, expected {}{}", where, key, in_quotes(**text),
                                  fmt::join(choices, ", "),
                                  nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
  }
  if (auto* const* whole = std::get_if<int64_t*>(&slot)) check_number(static_cast<long double>(**whole));
  if (auto* const* natural = std::get_if<uint64_t*>(&slot)) check_number(static_cast<long double>(**natural));
  if (auto* const* real = std::get_if<double*>(&slot)) check_number(static_cast<long double>(**real));
  if (auto* const* reals = std::get_if<std::vector<double>*>(&slot))
    for (const double value : **reals) check_number(static_cast<long double>(value));
  if (auto* const* integers = std::get_if<std::vector<int64_t>*>(&slot))
    for (const int64_t value : **integers) check_number(static_cast<long double>(value));
}

}  // namespace athanor::config
