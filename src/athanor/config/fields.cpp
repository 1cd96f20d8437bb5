#include "athanor/config/fields.h"

#include <fmt/core.h>

#include <cmath>
#include <type_traits>

#include "athanor/config/field_lists.h"

namespace athanor::config {
namespace {

template <auto Member, typename Owner>
Slot of(Owner& owner) {
  return &(owner.*Member);
}

}  // namespace

const std::vector<Field<Config>>& config_fields() {
  static const std::vector<Field<Config>> fields = [] {
    std::vector<Field<Config>> all = model_fields();
    for (const auto& list : {train_fields(), parallel_fields(), run_fields()})
      all.insert(all.end(), list.begin(), list.end());
    return all;
  }();
  return fields;
}

const std::vector<Field<Config>>& shape_fields() {
  static const std::vector<Field<Config>> fields = [] {
    std::vector<Field<Config>> all = model_fields();
    std::erase_if(all, [](const auto& field) {
      return field.key() == "model.preset" || field.key() == "model.config";
    });
    return all;
  }();
  return fields;
}

const std::vector<Field<ChannelConfig>>& channel_fields() {
  static const std::vector<Field<ChannelConfig>> fields = {
      {"data.channels",
       "name",
       "name in metrics and on the console",
       "Short, without spaces.",
       of<&ChannelConfig::name>,
       {.required = true}},
      {"data.channels",
       "path",
       "text, JSONL, folder or .bin/.idx prefix; \"-\" for standard input",
       "Each file may be compressed with gzip, zstd, xz or bzip2. Standard input is spooled into the run's "
       "folder and read once, as it comes: JSON lines, or text whose documents are divided by lines that "
       "hold <|endoftext|> alone.",
       of<&ChannelConfig::path>,
       {.is_path = true, .required = true}},
      {"data.channels", "weight", "share of the sequences, relative to the other channels",
       "A small channel with a large weight is read several times.", of<&ChannelConfig::weight>, above(0)},
      {"data.channels", "epochs", "times through the channel in the run or phase; 0: its weight counts",
       "The other channels share what remains by weight. Replaces weight and tokens.",
       of<&ChannelConfig::epochs>, at_least(0)},
      {"data.channels", "tokens", "tokens read of the channel in the run or phase; 0: its weight counts",
       "The other channels share what remains by weight. Replaces weight and epochs.",
       of<&ChannelConfig::tokens>, at_least(0)},
      {"data.channels", "valid_path", "validation text, like path; empty: the last part of path",
       "Give it where a corpus has a validation split of its own.", of<&ChannelConfig::valid_path>, path()},
      {"data.channels", "fim_rate", "share of documents whose middle moves to their end (fill-in-the-middle)",
       "0.5 to 0.9 for code that an editor completes. The tokenizer must have tokens for it, such as "
       "<fim_prefix>. The text is tokenized anew.",
       of<&ChannelConfig::fim_rate>, at_least(0)},
      {"data.channels", "fim_spm_rate", "share of those that have the suffix before the prefix",
       "Leave it unless the model is asked in one order only.", of<&ChannelConfig::fim_spm_rate>,
       at_least(0)},
      {"data.channels", "follow", "whether path is a folder that grows: files are read once, as they come",
       "Give a file its name when it is whole (rename it from a name that ends in .tmp or .part). A file "
       "_SUCCESS says that no more will come: then the run ends. Takes the bytes of the tokens in the run's "
       "folder.",
       of<&ChannelConfig::follow>, any()},
      {"data.channels", "messages",
       "field of a JSONL line that holds a conversation: a list of {role, content}",
       "Only the assistant's answers are learned, with the token that ends each. The path must be JSON.",
       of<&ChannelConfig::messages>, any()},
      {"data.channels", "prompt", "field that holds what the user says, or a template of fields",
       "Give it with answer, in place of messages: prompt = \"question\", answer = \"answer\".",
       of<&ChannelConfig::prompt>, any()},
      {"data.channels", "answer", "field that holds the answer to the prompt, or a template of fields",
       "Only it is learned, with the token that ends it.", of<&ChannelConfig::answer>, any()},
      {"data.channels", "template", "chat template (Jinja) of conversations; empty: that of the tokenizer",
       "Without either a prompt and its answer are joined by a line end and end in the end of text.",
       of<&ChannelConfig::chat_template>, path()},
  };
  return fields;
}

const std::vector<Field<OptimizerGroupConfig>>& optimizer_group_fields() {
  static const std::vector<Field<OptimizerGroupConfig>> fields = {
      {"optimizer.group",
       "match",
       "pattern over parameter names: * is any text, ? any character",
       "'athanor checkpoint show' lists the names. A pattern that no parameter has is refused.",
       of<&OptimizerGroupConfig::match>,
       {.required = true}},
      {"optimizer.group", "lr_ratio", "learning rate as a multiple of optimizer.lr; 0: not trained",
       "Below 1 for what is trained already, such as the lower blocks in finetuning.",
       of<&OptimizerGroupConfig::lr_ratio>, at_least(0)},
      {"optimizer.group", "weight_decay",
       "decay of all that match, vectors too; -1: optimizer.weight_decay, of matrices only",
       "0 leaves out what should not shrink, such as embedding tables.",
       of<&OptimizerGroupConfig::weight_decay>, at_least(-1)},
  };
  return fields;
}

const std::vector<Field<Phase>>& phase_fields() {
  static const std::vector<Field<Phase>> fields = {
      {"phase",
       "name",
       "name of the phase, unlike those of the others",
       "It is part of the key of the phase's sample order: another name is another order.",
       of<&Phase::name>,
       {.required = true}},
      {"phase",
       "steps",
       "optimizer steps of the phase",
       "Those of all phases add up to train.steps, which may be left out.",
       of<&Phase::steps>,
       {.range = {1, kMany}, .required = true}},
  };
  return fields;
}

void assign(const Slot& to, const SettingValue& value) {
  std::visit([&](auto* target) { *target = std::get<std::remove_pointer_t<decltype(target)>>(value); }, to);
}

SettingValue value_of(const Slot& slot) {
  return std::visit([](const auto* value) { return SettingValue(*value); }, slot);
}

bool Range::contains(long double value) const {
  // A NaN is in no range; infinities are in none either, since every limit of a setting is finite or open.
  return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high) &&
         value < std::numeric_limits<long double>::infinity();
}

std::string Range::expected(long double got) const {
  const auto number = [](long double value) {
    return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
  };
  if (high < kMany && high - low < 1e4L)
    return fmt::format("a value in {}{}, {}{}", low_open ? '(' : '[', number(low), number(high),
                       high_open ? ')' : ']');
  if (got > high && high < std::numeric_limits<long double>::infinity())
    return fmt::format("at most {}", number(high));
  return fmt::format("{} {}", low_open ? "a finite value above" : "at least", number(low));
}

const Field<Config>* find_field(std::string_view section, std::string_view name) {
  for (const auto& field : config_fields())
    if (field.section == section && field.name == name) return &field;
  return nullptr;
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const auto& field : config_fields())
    if (names.empty() || names.back() != field.section) names.emplace_back(field.section);
  return names;
}

std::vector<std::string> key_names(std::string_view section) {
  std::vector<std::string> names;
  for (const auto& field : config_fields())
    if (field.section == section) names.emplace_back(field.name);
  return names;
}

}  // namespace athanor::config
