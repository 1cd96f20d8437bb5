#include "athanor/corpus/corpus_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "athanor/base/error.h"
#include "athanor/base/human.h"
#include "athanor/config/read_table.h"
#include "athanor/corpus/stage_kinds.h"

namespace athanor::corpus {
namespace {

constexpr uint64_t kMaxCorpusFileBytes = uint64_t{16} << 20;

const std::vector<Field<CorpusConfig>>& corpus_fields() {
  using C = CorpusConfig;
  static const std::vector<Field<CorpusConfig>> fields = {
      {"corpus",
       "name",
       "name of the corpus",
       "Its folder is OUTPUT/NAME.",
       config::slot_of<&C::name>,
       {.required = true}},
      {"corpus",
       "output",
       "folder of corpora",
       "On a disk with room for the texts twice.",
       config::slot_of<&C::output>,
       {}},
      {"corpus",
       "workers",
       "processes; 0: as many as processors",
       "The result does not depend on it.",
       config::slot_of<&C::workers>,
       {.range = {0, 4096}}},
      {"corpus",
       "memory",
       "bytes of memory of the whole job",
       "More lets larger documents through.",
       config::slot_of<&C::memory>,
       {.range = {64LL << 20, 1LL << 50}, .is_bytes = true}},
      {"corpus",
       "shard_size",
       "bytes of text in a shard",
       "The last one of a channel is smaller.",
       config::slot_of<&C::shard_size>,
       {.range = {1024, 1LL << 40}, .is_bytes = true}},
      {"corpus",
       "max_document",
       "bytes of the longest document; 0: a share of the memory",
       "Longer ones are refused, counted and reported.",
       config::slot_of<&C::max_document>,
       {.range = {0, 1LL << 30}, .is_bytes = true}},
  };
  return fields;
}

const std::vector<Field<InputConfig>>& input_fields() {
  using I = InputConfig;
  static const std::vector<Field<InputConfig>> fields = {
      {"input",
       "channel",
       "name of the channel",
       "It becomes a folder.",
       config::slot_of<&I::channel>,
       {.required = true}},
      {"input",
       "path",
       "file, folder, glob or - for standard input",
       "Files are read in sorted order.",
       config::slot_of<&I::path>,
       {.required = true}},
      {"input",
       "format",
       "auto, text, jsonl, csv, wet",
       "auto: the content decides.",
       config::slot_of<&I::format>,
       {.choices = {"auto", "text", "jsonl", "csv", "wet"}}},
      {"input",
       "text",
       "key of the text, a.b, or a template {title}\\n{body}",
       "Of JSON and CSV.",
       config::slot_of<&I::text>,
       {}},
      {"input", "id", "key of the id", "Without it a document is FILE/N.", config::slot_of<&I::id>, {}},
      {"input",
       "separators",
       "lines of plain text that divide documents",
       "Empty: a file is a document.",
       config::slot_of<&I::separators>,
       {}},
  };
  return fields;
}

void check_folder_name(const std::string& name, const std::string& where, const std::string& key) {
  const bool fine = !name.empty() && name.size() <= 200 && name.front() != '.' && printable(name) == name &&
                    name.find_first_of("/\\") == std::string::npos && name != "work" && name != "scores";
  if (!fine)
    throw ConfigError(
        fmt::format("{}: {}: got '{}', expected the name of a folder: no '/', no control characters, "
                    "no leading dot, not 'work' or 'scores'",
                    where, key, printable(name)));
}

std::string anchored(const std::string& folder, const std::string& path) {
  if (folder.empty() || path == "-") return path;
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

// least and most: a number stands for the side that the rule has; false: none.
void change_rule(Rule& rule, const toml::node& node, const std::string& key, const std::string& where) {
  constexpr std::string_view kExpected = "a number, [least, most] or false";
  const auto number = [&](const toml::node& part) {
    double value = 0;
    read_slot(Slot(&value), {}, key, part, where);
    return value;
  };
  if (const auto* flag = node.as_boolean(); flag != nullptr && !flag->get()) {
    rule.least = -INFINITY, rule.most = INFINITY;
  } else if (const auto* pair = node.as_array(); pair != nullptr && pair->size() == 2) {
    rule.least = number((*pair)[0]), rule.most = number((*pair)[1]);
  } else if (node.is_number()) {
    const bool has_least = rule.least > -INFINITY, has_most = rule.most < INFINITY;
    if (has_least == has_most) refuse_type(node, where, key, "[least, most] or false");
    (has_least ? rule.least : rule.most) = number(node);
  } else {
    refuse_type(node, where, key, kExpected);
  }
  if (!(rule.least <= rule.most))
    throw ConfigError(
        fmt::format("{}: {}: got [{}, {}], expected least <= most", where, key, rule.least, rule.most));
}

void change_rules(StageConfig& stage, const toml::table& table, const TableSource& source) {
  const toml::node* node = table.get("rules");
  if (node == nullptr) return;
  const std::string where = line_of(source, *node), owner = source.name + ".rules";
  if (!node->is_table()) refuse_type(*node, where, owner, "a table like {\"gopher.words\" = [50, 100000]}");
  std::vector<std::string> known;
  for (const Rule& rule : stage.rules) known.push_back(rule.name);
  for (const auto& [name, value] : *node->as_table()) {
    const auto rule = std::find_if(stage.rules.begin(), stage.rules.end(),
                                   [&, text = name.str()](const Rule& each) { return each.name == text; });
    if (rule == stage.rules.end()) refuse_key(line_of(source, value), owner, name.str(), known);
    change_rule(*rule, value, owner + "." + rule->name, line_of(source, value));
  }
}

std::string settings_of(toml::table table) {
  for (const char* elsewhere : {"kind", "channels", "rules"}) table.erase(elsewhere);
  std::ostringstream text;
  text << toml::toml_formatter{table};
  return text.str();
}

class CorpusReader {
 public:
  CorpusReader(std::string file, std::string folder) : file_(std::move(file)), folder_(std::move(folder)) {}

  CorpusConfig read(const toml::table& root) {
    for (const auto& [name, node] : root) {
      const std::vector<std::string> known = {"corpus", "input", "stage"};
      if (std::find(known.begin(), known.end(), name.str()) == known.end())
        refuse_key(line({}, node), "corpus file", name.str(), known);
    }
    CorpusConfig config;
    const TableSource source = at("corpus");
    const toml::node* corpus = root.get("corpus");
    if (corpus == nullptr || !corpus->is_table())
      throw ConfigError(fmt::format("{}: corpus: got none, expected a section [corpus] with a name", file_));
    read_table(*corpus->as_table(), corpus_fields(), config, source);
    check_folder_name(config.name, line_of(source, *corpus), "corpus.name");
    config.output = anchored(folder_, config.output);
    each(root, "input",
         [&](const toml::table& table, const TableSource& here) { read_input(table, here, config); });
    if (config.inputs.empty())
      throw ConfigError(fmt::format("{}: input: got none, expected one [[input]] or more", file_));
    each(root, "stage",
         [&](const toml::table& table, const TableSource& here) { read_stage(table, here, config); });
    check_channels(config);
    check_score_names(config);
    return config;
  }

 private:
  TableSource at(std::string name) const { return {.file = file_, .name = std::move(name)}; }
  std::string line(const TableSource&, const toml::node& node) const { return line_of(at(""), node); }

  template <typename Take>
  void each(const toml::table& root, const char* name, const Take& take) {
    const toml::node* node = root.get(name);
    if (node == nullptr) return;
    const std::string expected = fmt::format("tables [[{}]]", name);
    if (!node->is_array()) refuse_type(*node, line({}, *node), name, expected);
    int64_t number = 0;
    for (const toml::node& part : *node->as_array()) {
      if (!part.is_table()) refuse_type(part, line({}, part), name, expected);
      take(*part.as_table(), at(fmt::format("{} {}", name, ++number)));
    }
  }

  void read_input(const toml::table& table, const TableSource& source, CorpusConfig& config) const {
    InputConfig input;
    read_table(table, input_fields(), input, source);
    check_folder_name(input.channel, line_of(source, table), source.name + ".channel");
    if (input.path.empty())
      throw ConfigError(fmt::format("{}: {}.path: got '', expected a file, folder or glob",
                                    line_of(source, table), source.name));
    const auto is_standard_input = [](const InputConfig& each) { return each.path == "-"; };
    if (is_standard_input(input) &&
        std::any_of(config.inputs.begin(), config.inputs.end(), is_standard_input))
      throw ConfigError(
          fmt::format("{}: {}.path: got '-' a second time, expected standard input in one [[input]]",
                      line_of(source, table), source.name));
    input.path = anchored(folder_, input.path);
    config.inputs.push_back(std::move(input));
  }

  void read_stage(const toml::table& table, TableSource source, CorpusConfig& config) const {
    StageConfig stage;
    const toml::node* kind = table.get("kind");
    const std::string where = line_of(source, table);
    if (kind == nullptr || !kind->is_string())
      throw ConfigError(
          fmt::format("{}: {}.kind: got none, expected the name of a kind of stage", where, source.name));
    stage.kind = kind->as_string()->get();
    if (const toml::node* channels = table.get("channels"))
      read_slot(Slot(&stage.channels), {}, source.name + ".channels", *channels, line_of(source, *channels));
    stage.settings = settings_of(table);
    source.name += " (" + printable(stage.kind) + ")";
    source.read_elsewhere = {"kind", "channels", "rules"};
    find_stage_kind(stage.kind, where).make(folder_, table, source, stage);
    if (stage.stage != nullptr) stage.rules = stage.stage->rules();
    change_rules(stage, table, source);
    config.stages.push_back(std::move(stage));
  }

  void check_channels(const CorpusConfig& config) const {
    std::vector<std::string> known;
    for (const InputConfig& input : config.inputs) known.push_back(input.channel);
    for (size_t i = 0; i < config.stages.size(); ++i)
      for (const std::string& channel : config.stages[i].channels)
        if (std::find(known.begin(), known.end(), channel) == known.end())
          refuse_key(file_, fmt::format("stage {}.channels", i + 1), channel, known);
  }

  // A document has each score once: stages of one kind are for channels of their own.
  void check_score_names(const CorpusConfig& config) const {
    std::map<std::pair<std::string, std::string>, size_t> stages;  // by channel and score
    for (const InputConfig& input : config.inputs) {
      for (size_t i = 0; i < config.stages.size(); ++i) {
        if (config.stages[i].stage == nullptr || !config.stages[i].takes(input.channel)) continue;
        for (const Score& score : config.stages[i].stage->scores()) {
          const auto [place, is_new] = stages.emplace(std::pair{input.channel, score.name}, i);
          if (!is_new && place->second != i)
            throw ConfigError(
                fmt::format("{}: stage {} ({}): gives a second score '{}' to channel '{}', expected other "
                            "scores than those of stage {}",
                            file_, i + 1, config.stages[i].kind, score.name, input.channel,
                            place->second + 1),
                "limit each of the two to channels of its own");
        }
      }
    }
  }

  std::string file_, folder_;
};

}  // namespace

bool StageConfig::takes(const std::string& channel) const {
  return channels.empty() || std::find(channels.begin(), channels.end(), channel) != channels.end();
}

CorpusConfig parse_corpus(const std::string& text, const std::string& file, const std::string& folder) {
  toml::table root;
  try {
    root = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    throw ConfigError(fmt::format("{}:{}: {}", file, error.source().begin.line,
                                  printable(std::string(error.description()))));
  }
  CorpusConfig config = CorpusReader(file, folder).read(root);
  config.text = text;
  return config;
}

CorpusConfig load_corpus(Env& env, const std::string& path) {
  const std::string folder = std::filesystem::absolute(path).parent_path().string();
  return parse_corpus(env.read_text(path, kMaxCorpusFileBytes), path, folder);
}

}  // namespace athanor::corpus
