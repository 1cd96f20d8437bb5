// athanor evaluate RUN_OR_CHECKPOINT: how well a model predicts held-out text.
#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "athanor/base/check.h"
#include "athanor/base/cpu.h"
#include "athanor/base/human.h"
#include "athanor/config/load.h"
#include "athanor/data/dataset.h"
#include "athanor/evaluate/perplexity.h"
#include "command.h"
#include "data_settings.h"
#include "loaded.h"
#include "progress.h"
#include "terminal.h"

namespace athanor {
namespace {

struct EvaluateCommand {
  std::string path, ids_file, config_file;
  std::vector<std::string> overrides;
  ComputeOptions compute;
  EvaluateOptions options;
  bool json = false;

  void run() const;
  void run_ids(Loaded& model) const;
  void run_channels(Loaded& model) const;
};

std::vector<std::vector<int32_t>> read_ids(const std::string& path) {
  const std::string text = system_env().read_text(path, uint64_t{1} << 30);
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  check(json.is_array(), "'{}': got {}, expected a JSON array of arrays of token ids", path,
        json.is_discarded() ? "no JSON" : json.type_name());
  std::vector<std::vector<int32_t>> sequences;
  for (size_t s = 0; s < json.size(); ++s) {
    check(json[s].is_array(), "'{}': sequence {} is {}, expected an array of token ids", path, s,
          json[s].type_name());
    auto& sequence = sequences.emplace_back();
    for (const auto& id : json[s]) {
      if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > INT32_MAX)
        fail("'{}': sequence {} holds {}, expected a token id", path, s,
             id.is_number() ? id.dump() : id.type_name());
      sequence.push_back(id.get<int32_t>());
    }
  }
  return sequences;
}

// A score of nothing, or one that is no number, is no success.
void check_score(const Loaded& model, const std::string& channel, int64_t tokens, double loss) {
  const std::string what =
      channel.empty() ? "evaluate" : fmt::format("evaluate: channel '{}'", printable(channel));
  if (tokens > 0 && !std::isfinite(loss))
    fail("{}: the loss is not finite; '{}' holds a model that has diverged", what, model.loaded.path);
}

void note_skipped(const Loaded& model, nlohmann::ordered_json& report) {
  if (!model.loaded.skipped.empty()) report["skipped"] = model.loaded.skipped;
}

void EvaluateCommand::run_ids(Loaded& model) const {
  const IdsScore score = score_ids(*model.loaded.model, model.arena, read_ids(ids_file));
  check_score(model, "", score.tokens, score.loss);
  if (json) {
    nlohmann::ordered_json report{
        {"tokens", score.tokens}, {"loss", score.loss}, {"perplexity", std::exp(score.loss)}};
    note_skipped(model, report);
    std::cout << report.dump() << std::endl;
  } else {
    std::cout << fmt::format("{} tokens, loss {:.6f}, perplexity {:.4f}\n", score.tokens, score.loss,
                             std::exp(score.loss));
  }
}

void EvaluateCommand::run_channels(Loaded& model) const {
  Config config =
      config_file.empty() ? model.loaded.config : load_config(system_env(), config_file, overrides);
  config.model = model.loaded.model->config();
  if (config.data.seq_len > config.model.max_seq_len)
    throw ConfigError(fmt::format("data.seq_len: got {}, expected at most the model's max_seq_len {}",
                                  config.data.seq_len, config.model.max_seq_len));
  check(!config.data.channels.empty(),
        "evaluate: '{}' names no data; give --config FILE.toml or --ids FILE.json", path);
  ProgressLine line;
  const Dataset data = open_dataset(config, system_env(),
                                    {.threads = model.pool.num_threads(),
                                     .vocab_size = config.model.vocab_size,
                                     .tokenizer = model.tokenizer,
                                     .progress = show_tokenizing(line)});
  const auto group = make_single_group();
  const Evaluation evaluation =
      evaluate_channels(*model.loaded.model, model.arena, data.channels, *group, options);
  if (evaluation.tokens == 0)
    throw Error(fmt::format("evaluate: nothing is held out: got data.valid_fraction {:g} of '{}'",
                            config.data.valid_fraction, path),
                "give a larger data.valid_fraction with --config FILE.toml --set data.valid_fraction=0.05");
  for (const ChannelScore& score : evaluation.channels)
    check_score(model, score.name, score.tokens, score.loss);
  if (json) {
    nlohmann::ordered_json report{{"model", model.loaded.path},
                                  {"step", model.loaded.step},
                                  {"tokens", evaluation.tokens},
                                  {"loss", evaluation.loss},
                                  {"perplexity", std::exp(evaluation.loss)},
                                  {"channels", nlohmann::ordered_json::object()}};
    for (const ChannelScore& score : evaluation.channels) {
      auto& entry = report["channels"][score.name];
      entry = {{"tokens", score.tokens}, {"loss", score.loss}, {"perplexity", score.perplexity()}};
      if (score.tokens == 0) entry["loss"] = entry["perplexity"] = nullptr;
      if (score.bytes) entry["bytes"] = *score.bytes;
      if (score.bits_per_byte()) entry["bits_per_byte"] = *score.bits_per_byte();
    }
    note_skipped(model, report);
    std::cout << report.dump(2) << std::endl;
    return;
  }
  std::vector<std::vector<std::string>> rows;
  for (const ChannelScore& score : evaluation.channels)
    rows.push_back({score.name, with_commas(score.tokens),
                    score.tokens > 0 ? fmt::format("{:.4f}", score.loss) : "-",
                    score.tokens > 0 ? fmt::format("{:.2f}", score.perplexity()) : "-",
                    score.bits_per_byte() ? fmt::format("{:.4f}", *score.bits_per_byte()) : "-"});
  ChannelScore all{.name = "all", .tokens = evaluation.tokens, .loss = evaluation.loss, .bytes = int64_t{0}};
  for (const ChannelScore& score : evaluation.channels)
    all.bytes = all.bytes && score.bytes ? std::optional(*all.bytes + *score.bytes) : std::nullopt;
  rows.push_back({"all", with_commas(all.tokens), fmt::format("{:.4f}", all.loss),
                  fmt::format("{:.2f}", all.perplexity()),
                  all.bits_per_byte() ? fmt::format("{:.4f}", *all.bits_per_byte()) : "-"});
  const auto console = make_console(false, 1);
  // A checkpoint's name has its step.
  const std::string step = fmt::format("step_{:08d}", model.loaded.step);
  const bool said = model.loaded.step == 0 || model.loaded.path.ends_with(step);
  console->message(fmt::format("{}{}, {}", model.loaded.path,
                               said ? "" : fmt::format(", step {}", model.loaded.step),
                               name_of(model.loaded.model->head().value().dtype())));
  console->table({"channel", "tokens", "loss", "perplexity", "bits per byte"}, rows);
}

void EvaluateCommand::run() const {
  check_overrides(overrides, {"data.", "train.runs"}, "evaluate");
  Loaded model(path, compute);
  if (model.tokenizer != nullptr)  // its ids are those that the model knows
    for (const std::string& text : overrides)
      if (text.starts_with("data.tokenizer"))
        throw ConfigError("--set " + printable(text) + ": data.tokenizer has no effect, since '" + path +
                              "' holds its own tokenizer",
                          "leave data.tokenizer out");
  ids_file.empty() ? run_channels(model) : run_ids(model);
}

}  // namespace

void add_evaluate(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("evaluate", "Perplexity and bits per byte of a model on held-out text");
  auto command = std::make_shared<EvaluateCommand>();
  sub->add_option("MODEL", command->path, "A run, a checkpoint or a Hugging Face folder")->required();
  auto* ids = sub->add_option("--ids", command->ids_file,
                              "A JSON array of id sequences, each predicted from its start")
                  ->type_name("FILE.json");
  auto* config =
      sub->add_option("--config", command->config_file, "Data of another config (default: the run's own)")
          ->type_name("FILE.toml")
          ->excludes(ids);
  sub->add_option("--set", command->overrides, "Override a setting of --config")
      ->type_name("KEY=VALUE")
      ->needs(config)
      ->allow_extra_args(false);
  sub->add_option("--max-tokens", command->options.max_tokens, "Held-out tokens per channel (0: all)")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--batch", command->options.batch, "Sequences in one forward pass")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  sub->add_option("--dtype", command->compute.dtype, "f32, bf16 or f16 (default: as it was trained)");
  sub->add_option("--threads", command->compute.threads, "Compute threads (default: all processors)")
      ->check(CLI::Range(0, max_threads()));
  sub->add_flag("--json", command->json, "Print one JSON document");
  sub->footer(
      "Examples:\n"
      "  athanor evaluate runs/quickstart\n"
      "  athanor evaluate hf/ --config run.toml --max-tokens 100000\n"
      "  athanor evaluate runs/quickstart --ids ids.json --json\n"
      "\n"
      "Loss is the mean natural-log loss over all predicted tokens; perplexity its exponential.\n"
      "With --ids and --json: {\"tokens\", \"loss\", \"perplexity\"}.");
  sub->callback([command] { command->run(); });
}

}  // namespace athanor
