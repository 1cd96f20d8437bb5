// athanor-bench tokenizer: one tokenizer file and a batch of documents on one thread. bench/tokenizer_speed.mjs calls it in
// turns with Hugging Face's Rust library.
#include <CLI/CLI.hpp>
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>

#include "athanor/base/check.h"
#include "athanor/base/file.h"
#include "athanor/observe/report.h"
#include "athanor/text/tokenizer.h"
#include "bench.h"

namespace athanor::apps {
namespace {

double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

struct BenchTokenizer {
  std::string file, documents, ids;

  void run() const;
};

void BenchTokenizer::run() const {
  const auto documents_json = nlohmann::json::parse(system_env().read_text(documents));
  const auto texts = documents_json.get<std::vector<std::string>>();
  const auto seconds_of = [](const auto& call) {
    const double start = processor_seconds();
    call();
    return processor_seconds() - start;
  };
  std::shared_ptr<const Tokenizer> tokenizer;
  Report report;
  report["load_seconds"] = seconds_of([&] { tokenizer = Tokenizer::load(system_env(), file); });
  std::vector<std::vector<int32_t>> encoded;
  for (const std::string& text : texts) encoded.push_back(tokenizer->encode(text));  // warms caches, as there
  std::vector<std::vector<int32_t>> again;
  again.reserve(texts.size());
  report["encode_seconds"] = seconds_of([&] {
    for (const std::string& text : texts) again.push_back(tokenizer->encode(text));
  });
  std::vector<text::Encoding> with_offsets;
  with_offsets.reserve(texts.size());
  report["offsets_seconds"] = seconds_of([&] {
    for (const std::string& text : texts) with_offsets.push_back(tokenizer->encode_with_offsets(text));
  });
  check(again == encoded, "bench tokenizer: {}: a second pass gives other ids", file);
  for (size_t i = 0; i < texts.size(); ++i)
    check(with_offsets[i].ids == encoded[i], "bench tokenizer: {}: document {} has other ids with offsets",
          file, i);
  if (!ids.empty()) system_env().write_atomically(ids, nlohmann::json(encoded).dump());
  std::cout << report.to_json();
}

}  // namespace

void add_bench_tokenizer(CLI::App& bench) {
  CLI::App* sub = bench.add_subcommand("tokenizer", "Loading and encoding of a tokenizer file on one thread");
  auto command = std::make_shared<BenchTokenizer>();
  sub->add_option("--tokenizer", command->file, "A tokenizer.json or SentencePiece .model")->required();
  sub->add_option("--documents", command->documents, "A JSON array of texts")->required();
  sub->add_option("--ids", command->ids, "A file for the ids of each document");
  sub->callback([command] { command->run(); });
}

}  // namespace athanor::apps
