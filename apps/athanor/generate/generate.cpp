// athanor generate RUN_OR_CHECKPOINT: continues a prompt or answers a message, and streams the text.
#include "athanor/evaluate/generate.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "../command.h"
#include "../loaded.h"
#include "athanor/base/cpu.h"
#include "athanor/base/human.h"
#include "athanor/evaluate/stop_text.h"
#include "chat_prompt.h"
#include "conversation.h"
#include "written_text.h"

namespace athanor::apps {
namespace {

struct GenerateCommand {
  std::string path, prompt, prompt_file;
  ChatInput chat;
  std::vector<std::string> stops;
  ComputeOptions compute;
  GenerateOptions options;
  bool greedy = false, json = false, no_prompt = false, has_prompt = false;

  void run();

 private:
  bool is_conversation() const;
  void read_prompt();
  void warn_of_long_prompt(size_t num_ids, size_t context) const;
};

// What standard input holds right now, for one who gave no prompt: the text of a pipe or file, else nothing.
std::string piped_prompt() {
  struct stat info {};
  if (::fstat(STDIN_FILENO, &info) != 0 || !(S_ISFIFO(info.st_mode) || S_ISREG(info.st_mode))) return {};
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (::poll(&input, 1, 0) > 0) return {std::istreambuf_iterator<char>(std::cin), {}};
  std::fputs(
      "athanor: warning: nothing has come through standard input yet, so it is not read: "
      "give --prompt-file - to wait for it\n",
      stderr);
  return {};
}

// A pipe whose text nobody will read.
void warn_of_unread_pipe() {
  struct stat info {};
  int waiting = 0;
  if (::fstat(STDIN_FILENO, &info) == 0 && S_ISFIFO(info.st_mode) &&
      ::ioctl(STDIN_FILENO, FIONREAD, &waiting) == 0 && waiting > 0)
    std::fputs(
        "athanor: warning: the text on standard input is not read, since there is a prompt already: "
        "give --prompt-file - in its place to read it\n",
        stderr);
}

void warn(const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "athanor: warning: %s\n", text.c_str());
}

bool GenerateCommand::is_conversation() const {
  return chat.on && !json && !has_prompt && prompt_file.empty() && chat.messages_file.empty() &&
         ::isatty(STDIN_FILENO) != 0;
}

void GenerateCommand::read_prompt() {
  if (!chat.messages_file.empty()) return;
  if (!prompt_file.empty()) {
    prompt = prompt_file == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {})
                                : system_env().read_text(prompt_file, uint64_t{64} << 20);
    if (prompt_file != "-") warn_of_unread_pipe();
  } else if (!has_prompt) {
    prompt = piped_prompt();
  } else {
    warn_of_unread_pipe();
  }
}

void GenerateCommand::warn_of_long_prompt(size_t num_ids, size_t context) const {
  if (num_ids > context)
    warn(fmt::format("the prompt has {} tokens and the model a context of {}: the first {} are not read",
                     with_commas(static_cast<int64_t>(num_ids)), with_commas(static_cast<int64_t>(context)),
                     with_commas(static_cast<int64_t>(num_ids - context))));
}

void GenerateCommand::run() {
  check_chat_options(chat);
  StopText checked(stops);  // an empty one is refused before the model is read
  Loaded model(path, compute);
  if (model.tokenizer == nullptr)
    throw Error("generate: '" + path + "' holds no tokenizer",
                "import or train with one, so that text can be read");
  const SpecialTokens& special = model.tokenizer->special_tokens();
  options.stop_ids = special.stops;
  options.vocab_size = model.tokenizer->vocab_size();
  if (greedy) options.sampling.temperature = 0.0;
  if (is_conversation()) return converse(model, path, chat, {.stops = stops, .options = options});
  read_prompt();
  std::vector<int32_t> ids;
  if (chat.on) {
    ChatPrompt asked = make_chat_prompt(*model.tokenizer, path, chat, {{"user", prompt}});
    ids = std::move(asked.ids);
    prompt = std::move(asked.text);
    options.stop_ids.insert(options.stop_ids.end(), asked.stop_ids.begin(), asked.stop_ids.end());
    stops.insert(stops.end(), asked.stops.begin(), asked.stops.end());
  } else {
    ids = model.tokenizer->encode_prompt(prompt);
    if (ids.empty() && special.end) ids.push_back(*special.end);  // an empty prompt: the start of a document
  }
  const auto context = static_cast<size_t>(model.loaded.config.model.max_position_embeddings);
  warn_of_long_prompt(ids.size(), context);
  // Shown with the first token: options that are refused must leave the output empty.
  bool prompt_shown = json || no_prompt || chat.on;
  const auto show = [&](const std::string& piece) {
    if (!std::exchange(prompt_shown, true)) std::cout << prompt;
    if (!json) std::cout << piece << std::flush;
    return true;
  };
  const WrittenText written =
      write_text(model, {ids, chat.on ? ids : model.tokenizer->encode(prompt), stops, options}, show);
  if (!json) std::cout << std::endl;
  if (!written.remark.empty()) warn(written.remark);
  if (!json) return;
  nlohmann::ordered_json report{
      {"prompt", prompt},
      {"text", written.text},
      {"stop", nullptr},
      {"prompt_tokens", ids.size()},
      {"tokens", written.ids},
      {"seconds", written.seconds},
      {"tokens_per_second", static_cast<double>(written.ids.size()) / written.seconds}};
  if (written.stop) report["stop"] = *written.stop;
  if (!model.loaded.skipped.empty()) report["skipped"] = model.loaded.skipped;
  std::cout << report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("generate", "Continue a prompt with a trained model");
  auto command = std::make_shared<GenerateCommand>();
  sub->add_option("MODEL", command->path, "A run, a checkpoint or a Hugging Face folder")->required();
  auto* prompt =
      sub->add_option("--prompt", command->prompt, "Text to continue; without one, what is piped in");
  sub->add_option("--prompt-file", command->prompt_file, "Read the prompt from a file ('-': standard input)")
      ->excludes(prompt);
  add_chat_options(*sub, command->chat);
  sub->add_option("--stop", command->stops, "End the text before this one; may be given several times")
      ->allow_extra_args(false)
      ->type_name("TEXT");
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
      "  athanor generate runs/quickstart --prompt-file - --greedy --no-prompt < prompt.txt\n"
      "  athanor generate runs/tutor --chat --system 'Be brief.' --prompt '2 + 2?' --stop '####'\n"
      "  athanor generate runs/tutor --chat");
  sub->callback([command, prompt] {
    command->has_prompt = prompt->count() > 0;
    command->run();
  });
}

}  // namespace athanor::apps
