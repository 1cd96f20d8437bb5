// athanor generate RUN_OR_CHECKPOINT: continues a prompt and streams the text.
#include "athanor/evaluate/generate.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/cpu.h"
#include "command.h"
#include "loaded.h"

namespace athanor {
namespace {

struct GenerateCommand {
  std::string path, prompt, prompt_file;
  ComputeOptions compute;
  GenerateOptions options;
  bool greedy = false, json = false, no_prompt = false;

  void run();
};

// Ends of text may cut a character in two: holds back bytes that are the beginning of one.
size_t complete_utf8(const std::string& text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;  // inside a character
    const size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? text.size() - back : text.size();
  }
  return text.size();
}

void GenerateCommand::run() {
  if (!prompt_file.empty())
    prompt = prompt_file == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {})
                                : system_env().read_text(prompt_file, uint64_t{64} << 20);
  Loaded model(path, compute);
  if (model.tokenizer == nullptr)
    throw Error("generate: '" + path + "' holds no tokenizer",
                "import or train with one, so that text can be read");
  std::vector<int32_t> ids = model.tokenizer->encode(prompt);
  const auto end = model.tokenizer->end_of_text();
  if (ids.empty() && end) ids.push_back(*end);  // an empty prompt: the start of a document
  if (end) options.stop_ids.push_back(*end);
  if (greedy) options.sampling.temperature = 0.0;
  options.vocab_size = model.tokenizer->vocab_size();

  const double start = now_seconds();
  std::string shown;
  std::string text;
  std::vector<int32_t> made;
  // Shown with the first token: options that are refused must leave the output empty.
  bool prompt_shown = json || no_prompt;
  const auto show_prompt = [&] {
    if (!std::exchange(prompt_shown, true)) std::cout << prompt << std::flush;
  };
  generate(*model.loaded.model, model.arena, ids, options, [&](int32_t id) {
    show_prompt();
    made.push_back(id);
    text = model.tokenizer->decode(made);
    const size_t ready = complete_utf8(text);
    if (!json && ready > shown.size()) {
      std::cout << text.substr(shown.size(), ready - shown.size()) << std::flush;
      shown = text.substr(0, ready);
    }
    return true;
  });
  const double seconds = now_seconds() - start;
  show_prompt();
  if (!json) {
    std::cout << text.substr(shown.size()) << std::endl;
    return;
  }
  const nlohmann::ordered_json report{{"prompt", prompt},
                                      {"text", text},
                                      {"prompt_tokens", ids.size()},
                                      {"tokens", made},
                                      {"seconds", seconds},
                                      {"tokens_per_second", static_cast<double>(made.size()) / seconds}};
  std::cout << report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("generate", "Continue a prompt with a trained model");
  auto command = std::make_shared<GenerateCommand>();
  sub->add_option("MODEL", command->path, "A run, a checkpoint or a Hugging Face folder")->required();
  auto* prompt = sub->add_option("--prompt", command->prompt, "Text to continue");
  sub->add_option("--prompt-file", command->prompt_file, "Read the prompt from a file ('-': standard input)")
      ->excludes(prompt);
  sub->add_option("--max-tokens", command->options.max_tokens, "Tokens to write")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  sub->add_flag("--greedy", command->greedy, "Always the most likely token");
  sub->add_option("--temperature", command->options.sampling.temperature,
                  "Below 1: safer, above: wilder; 0: greedy")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--top-k", command->options.sampling.top_k, "Only the k most likely tokens (0: all)")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--top-p", command->options.sampling.top_p, "Only the likeliest tokens that make up p")
      ->capture_default_str()
      ->check(CLI::Range(1e-9, 1.0));
  sub->add_option("--seed", command->options.seed, "The same seed writes the same text")
      ->capture_default_str();
  sub->add_option("--dtype", command->compute.dtype, "f32, bf16 or f16 (default: as it was trained)");
  sub->add_option("--threads", command->compute.threads, "Compute threads (default: all processors)")
      ->check(CLI::Range(0, max_threads()));
  sub->add_flag("--no-prompt", command->no_prompt, "Do not repeat the prompt");
  sub->add_flag("--json", command->json, "Print one JSON document when done");
  sub->footer(
      "Examples:\n"
      "  athanor generate runs/quickstart --prompt 'She was' --temperature 0.8 --top-p 0.95\n"
      "  athanor generate runs/quickstart --prompt-file - --greedy --no-prompt < prompt.txt");
  sub->callback([command] { command->run(); });
}

}  // namespace athanor
