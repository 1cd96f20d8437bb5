#include "apps/athanor/tokenizer/tokenizer_train.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/athanor/command.h"
#include "apps/athanor/read_remarks.h"
#include "apps/command_line/print.h"
#include "apps/command_line/progress.h"
#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/base/cpu.h"
#include "athanor/base/human.h"
#include "athanor/documents/document_reader.h"
#include "athanor/text/tokenizer.h"
#include "athanor/text/trainers/trainer.h"

namespace athanor::apps {
namespace {

void write_output(Env& env, const std::string& path, const std::string& text) {
  env.create_folders(parent_folder(path));
  env.write_atomically(path, text);
}

struct TokenizerTrainCommand {
  TokenizerTrainerOptions options;
  std::string output, text_key = "text", memory;
  std::vector<std::string> inputs;
  bool text_key_given = false;
  bool json = false;

  void run() {
    Env& env = system_env();
    if (env.is_folder(output))
      throw ConfigError(fmt::format("--output {}: is a folder, expected a file", output));
    env.create_folders(parent_folder(output));  // finds out now, not after an hour of training
    const double start = now_seconds();
    ProgressLine line;
    options.progress = [&](int64_t done, int64_t total) {
      line.update("learning", static_cast<double>(done), static_cast<double>(total),
                  fmt::format("{} of {} tokens", with_commas(done), with_commas(total)));
    };
    options.env = &env;
    options.scratch_folder = output + ".words";
    if (!memory.empty()) {
      const auto bytes = parse_bytes(memory);
      if (!bytes || *bytes <= 0)
        throw ConfigError(fmt::format("--memory: got '{}', expected a size, such as 512MiB or 2GiB", memory));
      options.memory_bytes = *bytes;
    }
    TokenizerTrainer trainer(options);
    const int64_t documents = read(env, trainer, line);
    const std::string text = trainer.finish();
    line.clear();
    write_output(env, output, text);
    warn_of_words_left_out(trainer.learned());
    report(*Tokenizer::parse(text, output), documents, trainer, now_seconds() - start);
  }

  int64_t read(Env& env, TokenizerTrainer& trainer, ProgressLine& line) const {
    uint64_t total = 0, before = 0;
    for (const std::string& input : inputs) total += list_sources(env, input).size_bytes();
    int64_t documents = 0;
    ReadReport all;
    ReadOptions how{.text_key = text_key, .separators = options.special_tokens};
    how.separators.emplace_back(kEndOfTextWord);
    for (const std::string& input : inputs) {
      uint64_t done = 0;
      const auto take = [&](std::string_view text, const DocumentPlace& place) {
        trainer.add(text);
        done = place.bytes_done;
        const double bytes = static_cast<double>(before + done);
        line.update("reading", bytes, static_cast<double>(total),
                    fmt::format("{} of {}, {}/s", human_bytes(bytes), human_bytes(static_cast<double>(total)),
                                human_bytes(bytes / std::max(line.seconds(), 1e-3))));
      };
      const ReadReport report = for_each_document(env, input, how, take);
      line.clear();
      say_remarks(report, {input});
      all.add(report);
      documents += report.documents;
      before += done;
    }
    if (text_key_given) check_text_key_used(all, text_key);
    return documents;
  }

  void warn_of_words_left_out(const LearnedWords& learned) const {
    if (learned.words == learned.all_words) return;
    print_warnings({fmt::format(
        "--memory {}: the {} most frequent of {} distinct words were learned from, {:.2f} % of the text's "
        "words",
        memory, with_commas(learned.words), with_commas(learned.all_words),
        100.0 * static_cast<double>(learned.occurrences) / static_cast<double>(learned.all_occurrences))});
  }

  void report(const Tokenizer& tokenizer, int64_t documents, const TokenizerTrainer& trainer,
              double seconds) const {
    const int64_t bytes = trainer.bytes_read();
    if (json)
      return print(Json{{"output", output},
                        {"type", options.type},
                        {"vocab_size", tokenizer.vocab_size()},
                        {"documents", documents},
                        {"bytes", bytes},
                        {"distinct_words", trainer.learned().all_words},
                        {"learned_words", trainer.learned().words},
                        {"seconds", seconds}}
                       .dump() +
                   "\n");
    print(fmt::format("{}: {} tokens ({}) from {} in {} documents, {}\n", output,
                      with_commas(tokenizer.vocab_size()), options.type,
                      human_bytes(static_cast<double>(bytes)), with_commas(documents),
                      human_seconds(seconds)));
    if (tokenizer.vocab_size() < options.vocab_size)
      print(fmt::format("  {} were asked for; the text holds nothing more to learn\n",
                        with_commas(options.vocab_size)));
  }
};

}  // namespace

void add_tokenizer_train(CLI::App& tokenizer) {
  const auto command = std::make_shared<TokenizerTrainCommand>();
  CLI::App& train =
      *tokenizer.add_subcommand("train", "Learn a tokenizer from text and write it as tokenizer.json");
  auto& options = command->options;
  options.num_threads = num_usable_cpus();
  options.special_tokens.clear();
  const CLI::Validator positive = CLI::PositiveNumber;
  train.add_option("--type", options.type, fmt::format("one of {}", fmt::join(tokenizer_types(), ", ")))
      ->capture_default_str();
  train.add_option("--vocab-size", options.vocab_size,
                   "tokens in all (default 30000; for char as many as there are characters)");
  train.add_option("--output,-o", command->output, "the file to write")->required()->type_name("FILE");
  train
      .add_option("--special", options.special_tokens,
                  "special token, ids from 0 in the order given (default <|endoftext|>)")
      ->allow_extra_args(false);
  train
      .add_option("--pattern", options.pattern,
                  fmt::format("pre-tokenizer regex: {}", fmt::join(tokenizer_patterns(), ", ")))
      ->capture_default_str();
  train.add_option("--min-frequency", options.min_frequency, "minimum pair frequency")->capture_default_str();
  train
      .add_option("--coverage", options.coverage,
                  "share of the text whose characters get a token, the rarest left out (default 0.9995; bpe, "
                  "unigram, wordpiece)")
      ->check(positive);
  train
      .add_option("--alphabet", options.max_alphabet,
                  "how many characters may get a token (bpe, unigram, wordpiece)")
      ->check(positive);
  train
      .add_option(
          "--normalizer", options.normalizer,
          "steps before text is cut, with commas: nfc, nfd, nfkc, nfkd, lowercase, strip_accents; or none")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("LIST");
  train
      .add_option("--max-token-length", options.max_token_length,
                  "characters that a learned token may have, of byte-bpe bytes (not for char; unigram 16)")
      ->check(positive);
  train.add_option("--threads", options.num_threads, "threads that count words")
      ->capture_default_str()
      ->check(CLI::Range(1, max_threads()));
  train
      .add_option("--memory", command->memory,
                  "what the training may take beside 64 MiB, such as 2GiB; counted words go to OUTPUT.words "
                  "while they "
                  "do not fit, and the rarest are left out (default: no limit)")
      ->type_name("SIZE");
  train.add_option("--text-key", command->text_key, "key of the text in JSON")->capture_default_str();
  train.add_option("TEXT", command->inputs, "files of text or JSON, each may be compressed, or folders")
      ->required();
  train.add_flag("--json", command->json, "print one JSON document");
  train.footer(
      "Examples:\n"
      "  athanor tokenizer train --vocab-size 8192 --output tokenizer.json data/en data/code\n"
      "  athanor tokenizer train --type char --output tokenizer.json shakespeare.txt");
  train.callback([command, &train] {
    command->text_key_given = train.count("--text-key") > 0;
    if (command->options.special_tokens.empty()) command->options.special_tokens = {"<|endoftext|>"};
    command->run();
  });
}

}  // namespace athanor::apps
