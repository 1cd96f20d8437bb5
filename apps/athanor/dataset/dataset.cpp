// athanor dataset build | verify; dataset_inspect.cpp, dataset_preview.cpp and ledger.cpp have the others
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/athanor/command.h"
#include "apps/athanor/dataset/dataset_inspect.h"
#include "apps/athanor/dataset/dataset_preview.h"
#include "apps/athanor/ledger.h"
#include "apps/athanor/loaded_tokenizer.h"
#include "apps/athanor/read_remarks.h"
#include "apps/command_line/print.h"
#include "apps/command_line/program.h"
#include "apps/command_line/progress.h"
#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/base/cpu.h"
#include "athanor/base/human.h"
#include "athanor/base/interrupted.h"
#include "athanor/data/indexed_dataset.h"
#include "athanor/data/instructions/instruction_encoder.h"
#include "athanor/data/tokenize.h"
#include "athanor/launch/stop_watcher.h"

namespace athanor::apps {
namespace {

struct BuildCommand {
  std::string tokenizer, output, text_key = "text";
  std::string messages, prompt, answer, chat_template;
  std::vector<std::string> paths;
  double fim_rate = 0.0, fim_spm_rate = 0.5;
  int threads = num_usable_cpus();
  uint64_t part_bytes = kPartBytes;
  bool text_key_given = false;
  bool json = false;

  TokenFileInfo build(const Tokenizer& with, const std::string& prefix, ProgressLine& line) const;
  void run() const {
    const std::string prefix = token_file_prefix(output);
    if (system_env().is_folder(prefix) || prefix.ends_with('/'))
      throw ConfigError(fmt::format("--output {}: is a folder, expected the prefix of two files", output),
                        "for example: --output " + join_path(prefix, "tokens"));
    const auto loaded = load_tokenizer(tokenizer);
    ProgressLine line;
    const double start = now_seconds();
    const TokenFileInfo info = build(*loaded, prefix, line);
    const double seconds = now_seconds() - start;
    line.clear();
    say_remarks(info.read, paths);
    if (json) {
      Json report = {{"output", prefix}, {"seconds", seconds}};
      report.update(Json::parse(token_file_info_json(info)));
      return print_json(report);
    }
    print(fmt::format(
        "{}.bin, {}.idx: {} tokens in {} documents from {} of text ({:.2f} bytes per token), {}\n",
        printable(prefix), printable(prefix), with_commas(info.tokens), with_commas(info.documents),
        human_bytes(static_cast<double>(info.bytes)),
        static_cast<double>(info.bytes) / static_cast<double>(info.tokens), human_seconds(seconds)));
  }
};

// An interrupted one leaves what was there before, and the parts that are done, for the next call.
TokenFileInfo BuildCommand::build(const Tokenizer& with, const std::string& prefix,
                                  ProgressLine& line) const {
  std::optional<InstructionEncoder> instructions;
  if (!messages.empty() || !prompt.empty() || !answer.empty() || !chat_template.empty())
    instructions.emplace(with, instruction_format(system_env(), messages, prompt, answer, chat_template));
  std::optional<FillInTheMiddle> fim;
  if (fim_rate > 0 && instructions)
    throw ConfigError("--fim-rate: is for texts, but there are keys of conversations",
                      "remove one of the two");
  if (fim_rate > 0) fim.emplace(with, FillInTheMiddleOptions{fim_rate, fim_spm_rate});
  const StopWatcher watcher({.on_again = [](int signal) { std::_Exit(128 + signal); }});
  try {
    return build_token_file(system_env(), with, paths, prefix,
                            {.text_key = text_key,
                             .threads = threads,
                             .text_key_given = text_key_given,
                             .progress = show_tokenizing(line, /*say_done=*/false),
                             .stop = &watcher.requested(),
                             .instructions = instructions ? &*instructions : nullptr,
                             .fim = fim ? &*fim : nullptr,
                             .part_bytes = part_bytes});
  } catch (const Interrupted&) {
    line.clear();
    std::fprintf(stderr, "athanor: interrupted: %s is as it was%s\n", printable(prefix).c_str(),
                 system_env().exists(prefix + ".build")
                     ? "; the same command goes on from the parts that are done"
                     : "");
    throw Exit{128 + watcher.requested()};
  }
}

struct DatasetVerifyCommand {
  std::string prefix, ledger;
  int64_t vocab_size = 0;
  bool json = false;

  void run() const {
    if (prefix.empty() == ledger.empty())
      throw ConfigError("dataset verify: expected the PREFIX of a token file, or --ledger RUN");
    if (!ledger.empty()) return verify_ledger(ledger, json);
    if (vocab_size < 0)
      throw ConfigError(fmt::format("--vocab-size: got {}, expected at least 1", vocab_size));
    const IndexedDataset dataset(prefix);
    const auto info = read_token_file_info(system_env(), dataset.prefix());
    const int64_t known = info ? info->vocab_size : int64_t{std::numeric_limits<int32_t>::max()};
    dataset.check_ids(vocab_size > 0 ? vocab_size : known);
    if (dataset.has_loss_mask()) dataset.loss_mask()->check_count();
    if (const auto sources = dataset.open_sources()) sources->check_hash();
    if (info) {
      const std::string& name = dataset.prefix();
      check(info->tokens == dataset.num_tokens() && info->documents == dataset.num_documents(),
            "'{}': got {} tokens in {} documents, expected {} in {} as in its .meta.json", name,
            dataset.num_tokens(), dataset.num_documents(), info->tokens, info->documents);
      int64_t text_bytes = 0;
      for (int64_t d = 0; d < dataset.num_documents(); ++d)
        text_bytes += dataset.text_bytes_of(d).value_or(0);
      check(text_bytes == info->bytes || !dataset.num_documents() || !dataset.text_bytes_of(0),
            "'{}': its .text_bytes add up to {}, expected {} as in its .meta.json", name, text_bytes,
            info->bytes);
      const std::string hash = dataset.full_hash();
      check(hash == info->content_hash, "'{}': the files have the hash {}, expected {} as in its .meta.json",
            name, hash, info->content_hash);
    }
    if (json)
      return print_json(Json{{"prefix", dataset.prefix()},
                             {"ok", true},
                             {"documents", dataset.num_documents()},
                             {"tokens", dataset.num_tokens()},
                             {"hash_checked", info.has_value()}});
    print(fmt::format("{}: ok, {} tokens in {} documents{}\n", printable(dataset.prefix()),
                      with_commas(dataset.num_tokens()), with_commas(dataset.num_documents()),
                      info ? "" : " (no .meta.json beside it, so no hash to compare with)"));
  }
};

template <typename Command>
std::pair<CLI::App*, std::shared_ptr<Command>> add_dataset_command(CLI::App& parent, const char* name,
                                                                   const char* help) {
  auto command = std::make_shared<Command>();
  CLI::App* app = parent.add_subcommand(name, help);
  app->add_flag("--json", command->json, "print one JSON document");
  app->callback([command] { command->run(); });
  return {app, command};
}

constexpr const char* kPrefixHelp = "the files' name without .bin or .idx";

}  // namespace

void add_dataset(CLI::App& app) {
  CLI::App& dataset = *app.add_subcommand("dataset", "Build and examine token files (Megatron's .bin/.idx)");
  dataset.require_subcommand(1);

  const auto [build_app, build] =
      add_dataset_command<BuildCommand>(dataset, "build", "Turn text into a token file");
  build_app->add_option("--tokenizer", build->tokenizer, "tokenizer.json, or a folder that holds one")
      ->required()
      ->type_name("FILE");
  build_app->add_option("--output,-o", build->output, "prefix of the files to write")
      ->required()
      ->type_name("PREFIX");
  build_app->add_option("--text-key", build->text_key, "key of the text in JSON")->capture_default_str();
  build_app->add_option("--messages", build->messages,
                        "key of conversations in JSON: a list of {role, content}; only answers are learned");
  build_app->add_option("--prompt", build->prompt,
                        "key of what the user says, with --answer in place of --messages");
  build_app->add_option("--answer", build->answer, "key of the answer to it, which alone is learned");
  build_app->add_option("--template", build->chat_template, "chat template (default: the tokenizer's)")
      ->type_name("FILE");
  build_app
      ->add_option("--fim-rate", build->fim_rate,
                   "share of documents whose middle moves to their end (fill-in-the-middle)")
      ->check(CLI::Range(0.0, 1.0));
  build_app
      ->add_option("--fim-spm-rate", build->fim_spm_rate, "share of those with the suffix before the prefix")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  build_app->add_option("--threads", build->threads, "threads that encode")
      ->capture_default_str()
      ->check(CLI::Range(1, max_threads()));
  build_app
      ->add_option(
          "--part-size", build->part_bytes,
          "text of a part: what a kill loses at most; an unfinished build goes on with the same size only")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  build_app->add_option("PATH", build->paths, "files of text or JSON, each may be compressed, or folders")
      ->required();
  build_app->callback([command = build, app_of_build = build_app] {
    command->text_key_given = app_of_build->count("--text-key") > 0;
    command->run();
  });
  build_app->footer(
      "Examples:\n"
      "  athanor dataset build --tokenizer tokenizer.json --output data/en text/en\n"
      "  athanor dataset build --tokenizer tokenizer.json --output data/web --text-key content "
      "web.jsonl.zst\n"
      "  athanor dataset build --tokenizer tokenizer.json --output data/chat --messages messages chat.jsonl\n"
      "\n"
      "A build that was interrupted goes on where it was when the same command is given again. The same "
      "command in\n"
      "several processes at once, on one machine or on several that share the disk, shares the work.");

  add_inspect(dataset);
  const auto [verify_app, verify] = add_dataset_command<DatasetVerifyCommand>(
      dataset, "verify", "Check a token file, or what a run has trained on");
  verify_app->add_option("PREFIX", verify->prefix, std::string(kPrefixHelp) + ": index, ids and hash");
  verify_app
      ->add_option(
          "--ledger", verify->ledger,
          "prove that this run saw each sequence once per epoch, but for those that its decisions skip")
      ->type_name("RUN");
  verify_app->add_option("--vocab-size", verify->vocab_size,
                         "ids must be below (default: the vocabulary it was made with)");
  verify_app->footer(
      "Examples:\n"
      "  athanor dataset verify data/en\n"
      "  athanor dataset verify --ledger runs/first\n"
      "\n"
      "Exit code 1 where something is wrong; the error names it.");

  add_preview(dataset);
  add_ledger(dataset);
}

}  // namespace athanor::apps
