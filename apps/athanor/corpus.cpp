// athanor corpus build | decide | show | stats | train-classifier
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "apps/command_line/print.h"
#include "apps/command_line/progress.h"
#include "apps/command_line/standard_input.h"
#include "athanor/base/human.h"
#include "athanor/corpus/classifier/linear_model.h"
#include "athanor/corpus/corpus_config.h"
#include "athanor/corpus/report/corpus_report.h"
#include "athanor/corpus/report/text_stats.h"
#include "athanor/documents/document_reader.h"
#include "command.h"

namespace athanor::apps {
namespace {

using corpus::CorpusConfig;

struct CorpusCommand {
  std::string file, reason;
  int64_t sample = 5;
  bool json = false;

  static std::string kept_share(const corpus::PassProgress& pass) {
    if (pass.seen_documents == 0) return "";
    return fmt::format(", {:.0f} % kept", 100.0 * static_cast<double>(pass.kept_documents) /
                                              static_cast<double>(pass.seen_documents));
  }

  corpus::Built make(const CorpusConfig& config, bool only_decide) const {
    ProgressLine line;
    corpus::BuildOptions options{.only_decide = only_decide};
    options.standard_input = open_standard_input;
    options.progress = [&](const corpus::PassProgress& pass) {
      const auto done = static_cast<double>(pass.done_bytes);
      line.update(pass.what, done, static_cast<double>(pass.total_bytes),
                  fmt::format("{} of {}, {}/s{}", human_bytes(done),
                              human_bytes(static_cast<double>(pass.total_bytes)),
                              human_bytes(done / std::max(line.seconds(), 1e-3)), kept_share(pass)));
    };
    return corpus::build_corpus(system_env(), config, options);
  }

  void build(bool only_decide) const {
    Env& env = system_env();
    const CorpusConfig config = corpus::load_corpus(env, file);
    const corpus::Built built = make(config, only_decide);
    const corpus::CorpusReport report = corpus::report_of(env, config, built);
    const std::string text = corpus::report_json(report);
    env.write_atomically(config.folder() + "/report.json", text);
    env.write_atomically(config.folder() + "/report.html", corpus::report_page(report));
    if (json) return print(text);
    for (const std::string& line : corpus::funnel_lines(report)) print(line + "\n");
    for (const auto& [reason_refused, refused] : report.refused)
      print_warnings({fmt::format("no document: {} ({}x)", reason_refused, with_commas(refused.count))});
    print(fmt::format("{}: {} of {} kept, {} documents; report: {}/report.html\n", config.folder(),
                      human_bytes(static_cast<double>(report.kept.bytes)),
                      human_bytes(static_cast<double>(report.input.bytes)),
                      with_commas(static_cast<int64_t>(report.kept.documents)), config.folder()));
  }

  void show() const {
    Env& env = system_env();
    const CorpusConfig config = corpus::load_corpus(env, file);
    const corpus::Built built = make(config, true);
    std::vector<std::string> known;
    for (const corpus::Reason& each : built.verdicts.reasons()) known.push_back(each.name);
    if (std::find(known.begin(), known.end(), reason) == known.end())
      throw ConfigError(fmt::format("--reason: got '{}', expected a rule of {}", printable(reason), file),
                        fmt::format("the rules are {}", fmt::join(known, ", ")));
    constexpr size_t kShownBytes = 2000;
    const auto examples = corpus::dropped_by(env, built, reason, static_cast<size_t>(sample),
                                             json ? size_t{1} << 30 : kShownBytes);
    if (json) {
      Json document = Json::array();
      for (const corpus::DroppedExample& example : examples)
        document.push_back({{"id", example.id}, {"source", example.source}, {"text", example.text}});
      return print_json(document);
    }
    if (examples.empty()) print(fmt::format("{} dropped nothing\n", reason));
    for (const corpus::DroppedExample& example : examples)
      print(fmt::format("--- {}\n{}\n", printable(example.id), example.text));
  }
};

struct TrainClassifierCommand {
  std::vector<std::string> good, bad;
  std::string output, text_key = "text";
  corpus::ClassifierTraining training;
  bool json = false;

  std::vector<std::string> read(const std::vector<std::string>& paths) const {
    std::vector<std::string> texts;
    for (const std::string& path : paths)
      for_each_document(system_env(), path, {.text_key = text_key},
                        [&](std::string_view text, const DocumentPlace&) { texts.emplace_back(text); });
    return texts;
  }
  void run() const {
    const corpus::LinearModel model = corpus::train_classifier(read(good), read(bad), training);
    model.write(system_env(), output);
    if (json)
      return print_json(
          {{"output", output}, {"documents", model.documents()}, {"held_out_auc", model.held_out_auc()}});
    print(fmt::format("{}: trained on {} documents; on those held out its AUC is {:.4f}\n", output,
                      with_commas(model.documents()), model.held_out_auc()));
  }
};

struct StatsCommand {
  std::vector<std::string> paths;
  std::string text_key = "text";
  bool json = false;

  static std::string languages(const corpus::TextStats& stats) {
    std::vector<std::pair<uint64_t, std::string>> order;
    for (const auto& [code, bytes] : stats.languages()) order.emplace_back(bytes, code);
    std::sort(order.rbegin(), order.rend());
    constexpr size_t kShown = 3;
    std::string text;
    for (size_t i = 0; i < std::min(kShown, order.size()); ++i)
      text += fmt::format("{}{} {:.0f} %", i == 0 ? "" : ", ", order[i].second,
                          100.0 * static_cast<double>(order[i].first) / static_cast<double>(stats.bytes()));
    return text;
  }
  Json json_of(const std::string& path, const corpus::TextStats& stats) const {
    Json by_language = Json::object();
    for (const auto& [code, bytes] : stats.languages()) by_language[code] = bytes;
    const corpus::Histogram& sizes = stats.document_bytes();
    return {{"path", path},
            {"documents", stats.documents()},
            {"bytes", stats.bytes()},
            {"characters", stats.characters()},
            {"words", stats.words()},
            {"lines", stats.lines()},
            {"copies", stats.copies()},
            {"distinct_words", stats.distinct_words()},
            {"compression", stats.compression()},
            {"document_bytes",
             {{"median", sizes.quantile(0.5)}, {"p90", sizes.quantile(0.9)}, {"most", sizes.most()}}},
            {"language_bytes", by_language}};
  }
  void run() const {
    Json all = Json::array();
    if (!json)
      print(fmt::format("{:<28} {:>10} {:>10} {:>12} {:>9} {:>9} {:>11}  {}\n", "", "documents", "text",
                        "words", "copies", "distinct", "compression", "languages"));
    for (const std::string& path : paths) {
      corpus::TextStats stats;
      for_each_document(system_env(), path, {.text_key = text_key},
                        [&](std::string_view text, const DocumentPlace&) { stats.add(text); });
      if (json) {
        all.push_back(json_of(path, stats));
        continue;
      }
      print(fmt::format(
          "{:<28} {:>10} {:>10} {:>12} {:>9} {:>7.1f} % {:>9.2f} x  {}\n", fit_columns(printable(path), 28),
          with_commas(static_cast<int64_t>(stats.documents())),
          human_bytes(static_cast<double>(stats.bytes())), with_commas(static_cast<int64_t>(stats.words())),
          with_commas(static_cast<int64_t>(stats.copies())), 100 * stats.distinct_words(),
          stats.compression(), languages(stats)));
    }
    if (json) print_json(all);
  }
};

void add_stats(CLI::App& corpus) {
  auto command = std::make_shared<StatsCommand>();
  CLI::App* sub = corpus.add_subcommand("stats", "size, words, repetition and languages of any text");
  sub->add_option("PATH", command->paths, "files, folders or globs; a row each")->required();
  sub->add_option("--text-key", command->text_key, "key of the text in JSON");
  sub->add_flag("--json", command->json, "one JSON document on standard output");
  sub->callback([command] { command->run(); });
}

void add_train_classifier(CLI::App& corpus) {
  auto command = std::make_shared<TrainClassifierCommand>();
  CLI::App* sub =
      corpus.add_subcommand("train-classifier", "a classifier of good and bad documents, for a stage");
  sub->add_option("--good", command->good, "files or folders of good documents")->required();
  sub->add_option("--bad", command->bad, "files or folders of bad ones")->required();
  sub->add_option("--output", command->output, "file of the model")->required();
  sub->add_option("--text-key", command->text_key, "key of the text in JSON");
  sub->add_option("--epochs", command->training.epochs, "times that each document is looked at");
  sub->add_option("--words", command->training.features.words, "longest run of words");
  sub->add_option("--characters", command->training.features.characters,
                  "run of characters of words; 0: none");
  sub->add_option("--seed", command->training.seed, "of the order of documents");
  sub->add_flag("--json", command->json, "one JSON document on standard output");
  sub->callback([command] { command->run(); });
}

}  // namespace

void add_corpus(CLI::App& app) {
  CLI::App* corpus =
      app.add_subcommand("corpus", "raw text to clean text, with a report of what was dropped and why");
  corpus->require_subcommand(1);
  const auto add = [&](const std::string& name, const std::string& what) {
    auto command = std::make_shared<CorpusCommand>();
    CLI::App* sub = corpus->add_subcommand(name, what);
    sub->add_option("FILE", command->file, "corpus file: [corpus], [[input]], [[stage]]")->required();
    sub->add_flag("--json", command->json, "one JSON document on standard output");
    return std::pair{sub, command};
  };
  const auto [build, build_command] =
      add("build", "reads the inputs and writes OUTPUT/NAME: shards, scores, report");
  build->callback([command = build_command] { command->build(false); });
  const auto [decide, decide_command] =
      add("decide", "the same with other thresholds, without looking at any text again");
  decide->callback([command = decide_command] { command->build(true); });
  const auto [show, show_command] = add("show", "documents that a rule dropped");
  show->add_option("--reason", show_command->reason, "name of the rule, as the report has it")->required();
  show->add_option("--sample", show_command->sample, "so many, drawn")->check(CLI::PositiveNumber);
  show->callback([command = show_command] { command->show(); });
  add_stats(*corpus);
  add_train_classifier(*corpus);
}

}  // namespace athanor::apps
