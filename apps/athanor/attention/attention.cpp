// athanor attention: who attends to whom, before anything is trained by it.
#include <CLI/CLI.hpp>
#include <memory>

#include "apps/athanor/attention/shown_attention.h"
#include "apps/athanor/command.h"
#include "apps/command_line/print.h"
#include "apps/command_line/terminal.h"
#include "athanor/base/check.h"
#include "athanor/base/columns.h"
#include "athanor/base/human.h"
#include "athanor/config/load.h"
#include "athanor/run/init_from.h"

namespace athanor::apps {
namespace {

// A mask of all pairs has an entry for each pair of blocks of 64: 33 MB at this length.
constexpr int64_t kMostPositions = 131072;
constexpr int64_t kPositionsOfAPattern = 4096;

struct AttentionCommand {
  std::string source;
  int64_t length = 0, heads = 0, layer = 0, head_size = 0;  // 0: not given; layers count from 0
  std::string output;
  bool json = false;

  void run() const;

 private:
  // What is asked for, with the shape that the pattern must fit.
  struct Question {
    AttentionPattern pattern;
    AttentionPlace place;
    int64_t layers = 1;
  };
  Question of_file() const;
  Question of_pattern() const;
};

AttentionCommand::Question AttentionCommand::of_file() const {
  const Config config = load_config(system_env(), source, {}, config_sources(system_env()));
  const ModelConfig& model = config.model;
  return {AttentionPattern::parse(model.attention_pattern),
          {.length = length > 0 ? length : config.data.seq_len,
           .layer = layer,
           .heads = heads > 0 ? heads : model.num_attention_heads,
           .head_size = head_size > 0 ? head_size : model.head_dim},
          model.num_hidden_layers};
}

AttentionCommand::Question AttentionCommand::of_pattern() const {
  AttentionPattern pattern = AttentionPattern::parse(source);
  const AttentionPlace place{.length = length > 0 ? length : kPositionsOfAPattern,
                             .layer = layer,
                             .heads = heads > 0 ? heads : std::max<int64_t>(pattern.heads_named(), 1),
                             .head_size = head_size};
  const int64_t layers = std::max(pattern.layers_named(), layer + 1);
  return {std::move(pattern), place, layers};
}

void AttentionCommand::run() const {
  const Question question = source.ends_with(".toml") ? of_file() : of_pattern();
  if (layer >= question.layers)
    throw ConfigError(fmt::format("attention show: --layer: got {}, expected a layer from 0 to {}", layer,
                                  question.layers - 1));
  question.pattern.check_fits({question.place.length, question.layers, question.place.heads});
  const ShownAttention shown = look_at(question.pattern, question.place);
  if (!output.empty()) system_env().write_atomically(output, attention_svg(shown));
  if (json) {
    print_json(attention_json(shown));
    return;
  }
  print(attention_text(shown, {.columns = console_columns(stdout),
                               .color = is_terminal(stdout) && environment_value("NO_COLOR").empty()}));
  if (!output.empty()) print("wrote " + printable(output) + "\n");
}

// The terms, as the help of the command ends with them.
std::string terms_help() {
  constexpr size_t kIndent = 24, kMeaning = 54;
  std::string text = "Terms of a pattern, i the position of a query and j of a key:\n";
  for (const kinds::TermKind* kind : kinds::term_kinds()) {
    std::string start = "  " + std::string(kind->form);
    for (const std::string& line : wrap_columns(kind->meaning, kMeaning)) {
      text += pad_columns(start, kIndent) + line + "\n";
      start.clear();
    }
  }
  return text;
}

}  // namespace

void add_attention(CLI::App& app) {
  CLI::App& attention = *app.add_subcommand("attention", "Show which tokens attend to which");
  attention.require_subcommand(1);
  CLI::App& sub = *attention.add_subcommand("show", "Draw the mask of a layer, and say what it costs");
  auto command = std::make_shared<AttentionCommand>();
  sub.add_option("FILE.toml|PATTERN", command->source,
                 "A run's config, or a pattern such as 'causal + window:256'")
      ->required();
  sub.add_option("--length", command->length,
                 "Positions of the sequence (default: the file's data.seq_len; 4096)")
      ->check(CLI::Range(int64_t{1}, kMostPositions));
  sub.add_option("--heads", command->heads,
                 "Heads of the layer (default: the file's; those that the pattern names)")
      ->check(CLI::Range(1, 1024));
  sub.add_option("--layer", command->layer, "The layer, counted from 0")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
  sub.add_option("--head-size", command->head_size, "Channels of a head, for FLOPs (default: the file's)")
      ->check(CLI::Range(1, 1 << 16));
  sub.add_option("--output", command->output, "Draw the picture into this SVG file, too")
      ->type_name("FILE.svg");
  sub.add_flag("--json", command->json, "Print one JSON document");
  const std::string footer =
      terms_help() +
      "\nTerms are joined by '+': a pair is seen if it satisfies causal, prefix, chunk and documents where "
      "they are named, and at "
      "least one of the others. Sections for some layers or heads are joined by ';'.\n\n"
      "Examples:\n"
      "  athanor attention show 'causal + window:256' --length 4096\n"
      "  athanor attention show 'global:64,64 + block_band:64,1 + random:3' --heads 12 --output bigbird.svg\n"
      "  athanor attention show 'heads 0-5: causal + band:256; heads 6-7: causal'";
  sub.footer(footer);
  attention.footer("Example:\n  athanor attention show 'causal + window:256' --output window.svg");
  sub.callback([command] { command->run(); });
}

}  // namespace athanor::apps
