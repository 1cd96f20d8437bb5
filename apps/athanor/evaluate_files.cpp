#include "evaluate_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/command_line/print.h"
#include "apps/command_line/progress.h"
#include "apps/command_line/terminal.h"
#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/data/tokenize.h"
#include "athanor/evaluate/score_documents.h"
#include "command.h"
#include "read_remarks.h"

namespace athanor::apps {
namespace {

// Positions that a model was trained on. One out of a Hugging Face folder says only what it could have been.
int64_t context_of(const LoadedModel& loaded, const std::string& path) {
  constexpr int64_t kOfUnknownTraining = 2048;
  const bool run = find_weights(system_env(), path).kind == WeightsPath::Kind::checkpoint;
  return std::min(loaded.model->config().max_position_embeddings,
                  run ? loaded.config.data.seq_len : kOfUnknownTraining);
}

struct FileScores {
  std::string path;
  int64_t documents = 0;
  DocumentScore sum;
};

Json facts_of(const DocumentScore& score) {
  Json facts = {{"tokens", score.tokens},
                {"bytes", score.bytes},
                {"loss", score.loss()},
                {"perplexity", score.perplexity()}};
  if (score.bits_per_byte()) facts["bits_per_byte"] = *score.bits_per_byte();
  return facts;
}

std::vector<std::string> row_of(const std::string& name, const std::string& documents,
                                const DocumentScore& score) {
  return {name,
          documents,
          with_commas(score.tokens),
          with_commas(score.bytes),
          fmt::format("{:.4f}", score.loss()),
          fmt::format("{:.2f}", score.perplexity()),
          score.bits_per_byte() ? fmt::format("{:.4f}", *score.bits_per_byte()) : "-"};
}

std::string place_of(const DocumentScore& score) {
  const std::string id = score.id.empty() ? "" : fmt::format(" ({})", score.id);
  return score.line == 0 ? score.file : fmt::format("{}:{}{}", score.file, score.line, id);
}

}  // namespace

void EvaluateFiles::run(Loaded& model) const {
  check(model.tokenizer != nullptr, "'{}': has no tokenizer, which text needs; give --ids FILE.json",
        model.loaded.path);
  const Tokenizer& tokenizer = *model.tokenizer;
  const bool by_document = by == "document";
  DocumentScorerOptions options{
      .context = context > 0 ? context : context_of(model.loaded, model.loaded.path),
      .stride = stride,
      .batch = batch,
      .before = {}};
  // In training a document follows the end of another.
  options.before = tokenizer.special_tokens().before;
  if (options.before.empty())
    if (const auto end = tokenizer.end_of_text()) options.before.push_back(*end);

  Env& env = system_env();
  const ReadOptions how{.text_key = text_key.empty() ? model.loaded.config.data.text_key : text_key,
                        .separators = document_separators(tokenizer)};
  uint64_t total_bytes = 0, bytes_before = 0;
  for (const std::string& path : paths) total_bytes += list_sources(env, path).size_bytes();
  ProgressLine line;
  ReadReport all_read;
  std::vector<FileScores> files;
  FileScores all;
  Json documents = Json::array();
  for (const std::string& path : paths) {
    FileScores& file = files.emplace_back(FileScores{path, 0, {}});
    DocumentScorer scorer(*model.loaded.model, model.arena, options, [&](const DocumentScore& score) {
      ++file.documents;
      file.sum.add(score);
      if (!by_document) return;
      Json facts = {{"file", score.file}};
      if (score.line > 0) facts["line"] = score.line;
      if (!score.id.empty()) facts["id"] = score.id;
      facts.update(facts_of(score));
      if (json) return documents.push_back(std::move(facts));
      line.clear();
      print(fmt::format("{}  {} tokens, {} bytes, loss {:.4f}, perplexity {:.2f}, bits per byte {}\n",
                        printable(place_of(score)), with_commas(score.tokens), with_commas(score.bytes),
                        score.loss(), score.perplexity(),
                        score.bits_per_byte() ? fmt::format("{:.4f}", *score.bits_per_byte()) : "-"));
    });
    ReadReport read =
        for_each_document(env, path, how, [&](std::string_view text, const DocumentPlace& place) {
          scorer.add({.file = place.file,
                      .line = place.line,
                      .id = place.id,
                      .bytes = static_cast<int64_t>(text.size())},
                     tokenizer.encode_ordinary(text));
          const auto done = static_cast<double>(bytes_before + place.bytes_done);
          line.update(
              "scoring " + printable(path), done, static_cast<double>(total_bytes),
              fmt::format("{} of {}", human_bytes(done), human_bytes(static_cast<double>(total_bytes))));
        });
    scorer.finish();
    line.clear();
    say_remarks(read, {path});
    check(file.sum.tokens > 0, "'{}': got {} documents with nothing to predict, expected text", path,
          file.documents);
    bytes_before += list_sources(env, path).size_bytes();
    all.documents += file.documents;
    all.sum.add(file.sum);
    all_read.add(read);
  }
  if (!text_key.empty()) check_text_key_used(all_read, text_key);

  if (json) {
    Json report = {{"model", model.loaded.path},
                   {"step", model.loaded.step},
                   {"context", options.context},
                   {"stride", stride > 0 ? stride : options.context},
                   {"documents", all.documents}};
    report.update(facts_of(all.sum));
    for (const FileScores& file : files) {
      report["files"][file.path] = {{"documents", file.documents}};
      report["files"][file.path].update(facts_of(file.sum));
    }
    if (by_document) report["by_document"] = std::move(documents);
    return print_json(report);
  }
  std::vector<std::vector<std::string>> rows;
  for (const FileScores& file : files)
    rows.push_back(row_of(printable(file.path), with_commas(file.documents), file.sum));
  if (files.size() > 1) rows.push_back(row_of("all", with_commas(all.documents), all.sum));
  const auto console = make_console(false, 1);
  console->message(
      fmt::format("{} (step {}), context {}", model.loaded.path, model.loaded.step, options.context));
  console->table({"file", "documents", "tokens", "bytes", "loss", "perplexity", "bits per byte"}, rows);
}

}  // namespace athanor::apps
