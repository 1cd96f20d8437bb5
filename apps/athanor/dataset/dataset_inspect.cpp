#include "apps/athanor/dataset/dataset_inspect.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <vector>

#include "apps/athanor/command.h"
#include "apps/athanor/loaded_tokenizer.h"
#include "apps/command_line/print.h"
#include "athanor/base/human.h"
#include "athanor/data/indexed_dataset.h"
#include "athanor/data/tokenize.h"

namespace athanor::apps {
namespace {

struct DatasetInspectCommand {
  std::string prefix, tokenizer;
  int64_t num_shown = 16;
  std::optional<int64_t> token, document;
  bool json = false;

  void run() const {
    const IndexedDataset dataset(prefix);
    if (num_shown < 0) throw ConfigError(fmt::format("--tokens: got {}, expected 0 or more", num_shown));
    print_facts(token ? of_token(dataset) : document ? of_document(dataset) : of_all(dataset));
  }

 private:
  Json of_all(const IndexedDataset& dataset) const;
  Json of_token(const IndexedDataset& dataset) const;
  Json of_document(const IndexedDataset& dataset) const;
  void print_facts(const Json& facts) const;
};

std::vector<int32_t> ids_of(const IndexedDataset& dataset, int64_t first, int64_t last) {
  std::vector<int32_t> ids(static_cast<size_t>(last - first));
  dataset.read(first, ids);
  return ids;
}

Json DatasetInspectCommand::of_all(const IndexedDataset& dataset) const {
  const auto ids = ids_of(dataset, 0, std::min(num_shown, dataset.num_tokens()));
  Json facts = {{"prefix", dataset.prefix()},
                {"documents", dataset.num_documents()},
                {"sequences", dataset.num_sequences()},
                {"tokens", dataset.num_tokens()},
                {"type", token_type_name(dataset.type())},
                {"bin_bytes", dataset.bin_bytes()},
                {"idx_bytes", dataset.idx_bytes()},
                {"first_tokens", ids}};
  if (dataset.has_loss_mask()) facts["tokens_in_loss"] = dataset.loss_mask()->num_counted();
  if (const auto sources = dataset.open_sources()) facts["source_files"] = sources->num_files();
  if (const auto info = read_token_file_info(system_env(), dataset.prefix())) {
    facts["text_bytes"] = info->bytes;
    facts["vocab_size"] = info->vocab_size;
    facts["end_of_text"] = info->end_of_text;
    facts["tokenizer_hash"] = info->tokenizer_hash;
    facts["source"] = info->source;
  }
  if (!tokenizer.empty()) facts["first_text"] = load_tokenizer(tokenizer)->decode(ids);
  return facts;
}

void check_number(const char* option, int64_t number, int64_t count, const IndexedDataset& dataset,
                  const char* what) {
  if (number >= 0 && number < count) return;
  if (count == 0)
    throw ConfigError(fmt::format("{}: got {}, but '{}' has no {}", option, number, dataset.prefix(), what));
  throw ConfigError(fmt::format("{}: got {}, expected 0 to {}, the {} of '{}'", option, number, count - 1,
                                what, dataset.prefix()));
}

// Null without PREFIX.sources: files of other programs do not say where documents came from.
Json source_of(const IndexedDataset& dataset, int64_t document) {
  const auto sources = dataset.open_sources();
  if (sources == nullptr) return nullptr;
  const DocumentSource source = sources->of(document);
  return {{"file", source.file}, {"record", source.record}, {"line", source.line}};
}

// What the ids [first, last) add to the text of those before.
std::string text_added(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, size_t first,
                       size_t last) {
  const std::string before = tokenizer.decode(std::span(ids).first(first));
  const std::string with = tokenizer.decode(std::span(ids).first(last));
  const auto differs = std::mismatch(before.begin(), before.end(), with.begin(), with.end()).second;
  return {differs, with.end()};
}

Json DatasetInspectCommand::of_token(const IndexedDataset& dataset) const {
  check_number("--token", *token, dataset.num_tokens(), dataset, "tokens");
  const int64_t of = dataset.document_of(*token);
  const int64_t begin = dataset.document_start(of), end = dataset.document_start(of + 1);
  uint8_t counts = 1;
  dataset.read_loss_mask(*token, {&counts, 1});
  Json facts = {{"prefix", dataset.prefix()},
                {"token", *token},
                {"id", ids_of(dataset, *token, *token + 1)[0]},
                {"in_loss", counts != 0},
                {"document", of},
                {"position", *token - begin},
                {"document_tokens", end - begin},
                {"source", source_of(dataset, of)}};
  if (tokenizer.empty()) return facts;
  const int64_t first = std::max(begin, *token - num_shown);
  const auto ids = ids_of(dataset, first, std::min(end, *token + 1 + num_shown));
  const auto loaded = load_tokenizer(tokenizer);
  const auto at = static_cast<size_t>(*token - first);
  facts["text_before"] = text_added(*loaded, ids, 0, at);
  facts["text"] = text_added(*loaded, ids, at, at + 1);
  facts["text_after"] = text_added(*loaded, ids, at + 1, ids.size());
  return facts;
}

Json DatasetInspectCommand::of_document(const IndexedDataset& dataset) const {
  check_number("--document", *document, dataset.num_documents(), dataset, "documents");
  const int64_t begin = dataset.document_start(*document), end = dataset.document_start(*document + 1);
  const auto ids = ids_of(dataset, begin, std::min(end, begin + num_shown));
  Json facts = {{"prefix", dataset.prefix()},
                {"document", *document},
                {"first_token", begin},
                {"document_tokens", end - begin},
                {"source", source_of(dataset, *document)},
                {"first_tokens", ids}};
  if (const auto bytes = dataset.text_bytes_of(*document)) facts["text_bytes"] = *bytes;
  if (!tokenizer.empty()) facts["first_text"] = load_tokenizer(tokenizer)->decode(ids);
  return facts;
}

std::string shown(const std::string& key, const Json& value) {
  if (value.is_string()) return printable(value.get<std::string>());
  if (value.is_number_integer()) return with_commas(value.get<int64_t>());
  if (key == "source" && value.is_null()) return "unknown (there is no .sources file)";
  if (key == "source" && value.is_object()) {
    const auto line = value["line"].get<int64_t>();
    return printable(value["file"].get<std::string>()) +
           fmt::format(", record {}, {}", with_commas(value["record"].get<int64_t>()),
                       line == 0 ? "the whole file" : "line " + with_commas(line));
  }
  return printable(value.dump());
}

void DatasetInspectCommand::print_facts(const Json& facts) const {
  if (json) return print_json(facts);
  for (const auto& [key, value] : facts.items()) print(fmt::format("{:<15} {}\n", key, shown(key, value)));
}

}  // namespace

void add_inspect(CLI::App& dataset) {
  auto command = std::make_shared<DatasetInspectCommand>();
  CLI::App* app = dataset.add_subcommand(
      "inspect", "Say what a token file holds, and where a token or document came from");
  app->add_flag("--json", command->json, "print one JSON document");
  app->add_option("PREFIX", command->prefix, "the files' name without .bin or .idx")->required();
  app->add_option("--tokenizer", command->tokenizer, "show the text of the tokens, too");
  app->add_option("--tokens", command->num_shown,
                  "how many of the first tokens to show, or at each side of one")
      ->capture_default_str();
  auto* token =
      app->add_option("--token", command->token, "a token of the file, from 0: its document and source");
  app->add_option("--document", command->document, "a document of the file, from 0: its tokens and source")
      ->excludes(token);
  app->footer(
      "Examples:\n"
      "  athanor dataset inspect data/en --tokenizer tokenizer.json\n"
      "  athanor dataset inspect data/en --token 123456 --tokenizer tokenizer.json");
  app->callback([command] { command->run(); });
}

}  // namespace athanor::apps
