// athanor evaluate RUN_OR_CHECKPOINT: how well a model predicts held-out text.
#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/command_line/progress.h"
#include "apps/command_line/terminal.h"
#include "athanor/base/check.h"
#include "athanor/base/cpu.h"
#include "athanor/base/human.h"
#include "athanor/config/load.h"
#include "athanor/data/dataset.h"
#include "athanor/evaluate/perplexity.h"
#include "athanor/run/init_from.h"
#include "command.h"
#include "data_settings.h"
#include "evaluate_files.h"
#include "loaded.h"

namespace athanor::apps {
namespace {

struct EvaluateCommand {
  std::string path, ids_file, config_file;
  std::vector<std::string> overrides;
  ComputeOptions compute;
  EvaluateOptions options;
  EvaluateFiles files;
  bool json = false;

  void run() const;
  void run_ids(Loaded& model) const;
  void run_channels(Loaded& model) const;
  void check_tokenizer(const Config& config, const Loaded& model) const;
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

// A score over no tokens, or a NaN score, is an error.
void check_score(const Loaded& model, const std::string& channel, int64_t tokens, double loss) {
  const std::string what =
      channel.empty() ? "evaluate" : fmt::format("evaluate: channel '{}'", printable(channel));
  if (tokens > 0 && !std::isfinite(loss))
    fail("{}: the loss is not finite; '{}' holds a model that has diverged", what, model.loaded.path);
}

void note_skipped(const Loaded& model, nlohmann::ordered_json& report) {
  if (!model.loaded.skipped.empty()) report["skipped"] = model.loaded.skipped;
}

void EvaluateCommand::check_tokenizer(const Config& config, const Loaded& model) const {
  if (config.data.tokenizer.empty() || model.tokenizer == nullptr) return;
  if (open_tokenizer(config, system_env())->json() == model.tokenizer->json()) return;
  throw ConfigError(
      fmt::format("data.tokenizer: got '{}', expected the tokenizer of '{}', whose ids its weights know",
                  config.data.tokenizer, model.loaded.path),
      "leave it away: the model brings its own");
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
  Config config = config_file.empty()
                      ? model.loaded.config
                      : load_config(system_env(), config_file, overrides,
                                    {.model_config = config_sources(system_env()).model_config});
  if (!config_file.empty()) check_tokenizer(config, model);
  config.model = model.loaded.model->config();
  for (ChannelConfig& channel : config.data.channels)
    channel.weight = 0;  // nothing is left over for training
  if (config.data.seq_len > config.model.max_position_embeddings)
    throw ConfigError(
        fmt::format("data.seq_len: got {}, expected at most the model's max_position_embeddings {}",
                    config.data.seq_len, config.model.max_position_embeddings));
  check(!config.data.channels.empty(),
        "evaluate: '{}' names no data; give --config FILE.toml or --ids FILE.json", path);
  ProgressLine line;
  const Dataset data = open_dataset(config, system_env(),
                                    {.threads = model.pool.num_threads(),
                                     .vocab_size = config.model.vocab_size,
                                     .tokenizer = model.tokenizer,
                                     .progress = show_tokenizing(line)});
  for (const std::string& remark : data.remarks) std::cerr << "athanor: " << remark << std::endl;
  const auto group = make_single_group();
  const Evaluation evaluation =
      evaluate_channels(held_out_passes(*model.loaded.model), model.arena, data.channels, *group, options);
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
                                  {"perplexity", std::exp(evaluation.loss)}};
    if (evaluation.bytes()) report["bytes"] = *evaluation.bytes();
    if (evaluation.bits_per_byte()) report["bits_per_byte"] = *evaluation.bits_per_byte();
    report["channels"] = nlohmann::ordered_json::object();
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
  rows.push_back({"all", with_commas(evaluation.tokens), fmt::format("{:.4f}", evaluation.loss),
                  fmt::format("{:.2f}", std::exp(evaluation.loss)),
                  evaluation.bits_per_byte() ? fmt::format("{:.4f}", *evaluation.bits_per_byte()) : "-"});
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
  if (!files.paths.empty()) {
    EvaluateFiles of_files = files;
    of_files.batch = options.batch;
    of_files.json = json;
    return of_files.run(model);
  }
  ids_file.empty() ? run_channels(model) : run_ids(model);
}

}  // namespace

void add_evaluate(CLI::App& app) {
  CLI::App* sub = app.add_subcommand(
      "evaluate", "Perplexity and bits per byte of a model on validation text or on files");
  auto command = std::make_shared<EvaluateCommand>();
  sub->add_option("MODEL", command->path, "A run, a checkpoint or a Hugging Face folder")->required();
  auto* files = sub->add_option("FILE", command->files.paths, "Text, JSON or folders to score as a whole")
                    ->type_name("FILE...");
  auto* ids = sub->add_option("--ids", command->ids_file,
                              "A JSON array of id sequences, each predicted from its start")
                  ->type_name("FILE.json");
  auto* config =
      sub->add_option("--config", command->config_file, "Data of another config (default: the run's own)")
          ->type_name("FILE.toml")
          ->excludes(ids)
          ->excludes(files);
  ids->excludes(files);
  sub->add_option("--by", command->files.by, "document: a line for each document of the files")
      ->needs(files)
      ->check(CLI::IsMember({"document"}));
  sub->add_option("--text-key", command->files.text_key, "Key of the text in JSON (default: the run's)")
      ->needs(files);
  sub->add_option(
         "--context", command->files.context,
         "Tokens that a forward pass sees of a document (default: as many as in training; of a Hugging Face "
         "folder at most 2048)")
      ->needs(files)
      ->check(CLI::PositiveNumber);
  sub->add_option("--stride", command->files.stride,
                  "Tokens between two passes over a longer document (default: the context)")
      ->needs(files)
      ->check(CLI::PositiveNumber);
  sub->add_option("--set", command->overrides, "Override a setting of --config")
      ->type_name("KEY=VALUE")
      ->needs(config)
      ->allow_extra_args(false);
  sub->add_option("--max-tokens", command->options.max_tokens, "Validation tokens per channel (0: all)")
      ->capture_default_str()
      ->excludes(files)
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
      "  athanor evaluate runs/quickstart test.txt more.jsonl.gz --by document\n"
      "\n"
      "Loss is the mean natural-log loss over all predicted tokens; perplexity its exponential.\n"
      "Bits per byte are of the bytes of the text itself.\n"
      "Each document of a FILE is scored on its own and each of its tokens once; an end of text stands "
      "before it\n"
      "and is not scored. A document longer than the context is read in windows, --stride tokens apart.\n"
      "With --ids and --json: {\"tokens\", \"loss\", \"perplexity\"}.");
  sub->callback([command] { command->run(); });
}

}  // namespace athanor::apps
