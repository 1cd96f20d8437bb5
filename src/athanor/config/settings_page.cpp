#include "athanor/config/settings_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "athanor/base/columns.h"
#include "athanor/config/field_lists.h"
#include "athanor/config/phases.h"
#include "athanor/config/print.h"

namespace athanor::config {
namespace {

constexpr const char* kHead =
    R"(<!-- Made by `athanor init --settings > docs/settings.md`; change the texts in src/athanor/config/fields_*.cpp. -->
# Settings

Every key of a config, table by table. A config is strict TOML; an unknown key is refused with the nearest known one.
`--set table.key=value` on the command line overrides a key (the value is TOML, a bare word is a string);
`athanor train FILE --print-config` shows the resolved whole with where each value came from; `athanor init` writes a
commented config to start from. `[model]` has LLaMA's names of Hugging Face's `config.json`. Relative paths of `[data]`
and `model.config` start at the folder of the config file, `train.runs` at the working folder.
)";

struct TypeText {
  const Traits& traits;

  std::string operator()(const std::string*) const {
    return traits.choices.empty() ? traits.is_path ? "path" : "string"
                                  : fmt::format("{}", fmt::join(words(), ", "));
  }
  std::string operator()(const int64_t*) const {
    return (traits.auto_is_zero ? "`auto` or integer, "
            : traits.is_bytes   ? "bytes, "
                                : "integer, ") +
           range();
  }
  std::string operator()(const uint64_t*) const { return "integer, " + range(); }
  std::string operator()(const double*) const { return "number, " + range(); }
  std::string operator()(const bool*) const { return "`true`, `false`"; }
  std::string operator()(const std::vector<double>*) const { return "array of numbers, each " + range(); }
  std::string operator()(const std::vector<int64_t>*) const { return "array of integers, each " + range(); }
  std::string operator()(const std::vector<std::string>*) const { return "array of strings"; }
  std::string operator()(const std::vector<ChannelConfig>*) const { return "array of tables"; }
  std::string operator()(const std::vector<OptimizerGroupConfig>*) const { return "array of tables"; }

 private:
  std::vector<std::string> words() const {
    std::vector<std::string> quoted;
    for (const std::string& choice : traits.choices) quoted.push_back("`" + choice + "`");
    for (const auto& [alias, ours] : traits.aliases)
      quoted.push_back(fmt::format("`{}` (= `{}`)", alias, ours));
    return quoted;
  }
  std::string range() const {
    const Range& r = traits.range;
    const std::string low = fmt::format("{} {:g}", r.low_open ? "above" : "at least", r.low);
    const bool has_high = r.high < kMany;
    return has_high ? fmt::format("{}, {} {}", low, r.high_open ? "below" : "at most", number(r.high)) : low;
  }
  static std::string number(long double value) {
    return value < 1e6L ? fmt::format("{:g}", value) : fmt::format("{:.0f}", value);
  }
};

// A bar ends a cell of a table, and '<name>' would be a tag.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : c == '<' ? "&lt;" : std::string(1, c);
  return out;
}

template <typename Owner>
std::string row(const Field<Owner>& field, const std::string& value, Owner& owner) {
  return fmt::format("| `{}` | {} | {} | {}. {} |\n", field.name, value,
                     std::visit(TypeText{field.traits}, field.slot(owner)), cell(field.note),
                     cell(field.advice));
}

constexpr const char* kColumns =
    "| key | default | values | what it does; when to change it, and its cost |\n|---|---|---|---|\n";

constexpr const char* kPhases = R"(
Phases divide a run into parts that follow one another, each with settings of its own: another data mixture, a longer
context, another learning rate. Without `[[phase]]` the run is one phase of `train.steps`. [phases.md](phases.md) has a
whole example.

```toml
[[phase]]
name = "long context"
steps = 100
data.seq_len = 1024
model.rope_theta = 100000.0
```

)";

// What a phase may set follows from phases.h.
std::string phase_section() {
  std::string section = fmt::format("\n## [[phase]]{}{}", kPhases, kColumns);
  Phase phase;
  for (const Field<Phase>& field : phase_fields()) section += row(field, "required", phase);
  std::string wrapped;
  for (const std::string& line : wrap_columns(
           fmt::format(
               "A phase may also set {}. It may change nothing else. Of a key that a phase does not set, it "
               "has "
               "the run's value, whatever an earlier phase had. The learning-rate schedule is the exception: "
               "it starts anew only in a phase that sets a key of [schedule] or optimizer.lr, and goes on "
               "until the next such phase or the end of the run. The state of the optimizer goes on through "
               "all phases. Each phase has its own sample order and its own epochs. `--set "
               "'phase.NAME.data.seq_len=512'` overrides a key; a number counted from 0 may stand in place "
               "of the name.",
               phase_settings_text()),
           120))
    wrapped += line + "\n";
  return section + "\n" + wrapped;
}

}  // namespace

// Of a setting of a channel.
std::string default_of(const Slot& slot) {
  if (auto* const* flag = std::get_if<bool*>(&slot)) return **flag ? "`true`" : "`false`";
  if (auto* const* number = std::get_if<double*>(&slot)) return fmt::format("`{:.1f}`", **number);
  if (auto* const* count = std::get_if<int64_t*>(&slot)) return fmt::format("`{}`", **count);
  return "`\"\"`";
}

std::string settings_page() {
  Config defaults;
  std::string page = kHead, section;
  for (const Field<Config>& field : config_fields()) {
    if (section != field.section) page += fmt::format("\n## [{}]\n{}", field.section, kColumns);
    section = field.section;
    page += row(field, "`" + setting_text(defaults, field.key()) + "`", defaults);
  }
  page += fmt::format(
      "\n## A channel of data.channels\n`channels = [{{name = \"en\", path = \"data/en\", weight = "
      "0.7}}]`\n\n{}",
      kColumns);
  ChannelConfig channel;
  for (const Field<ChannelConfig>& field : channel_fields())
    page += row(field, field.traits.required ? "required" : default_of(field.slot(channel)), channel);
  page += fmt::format("\n## [[optimizer.group]]\n`match = \"*.bias\"`, `lr_ratio = 0.5`\n\n{}", kColumns);
  OptimizerGroupConfig group;
  for (const Field<OptimizerGroupConfig>& field : optimizer_group_fields())
    page += row(field, field.traits.required ? "required" : default_of(field.slot(group)), group);
  return page + phase_section();
}

}  // namespace athanor::config
