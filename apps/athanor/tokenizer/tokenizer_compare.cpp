#include "apps/athanor/tokenizer/tokenizer_compare.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "apps/athanor/loaded_tokenizer.h"
#include "apps/athanor/read_remarks.h"
#include "apps/athanor/tokenizer/comparison.h"
#include "apps/command_line/progress.h"
#include "apps/command_line/terminal.h"
#include "athanor/base/check.h"
#include "athanor/base/cpu.h"
#include "athanor/base/human.h"
#include "athanor/base/thread_pool.h"
#include "athanor/documents/document_reader.h"
#include "athanor/text/tokenizer.h"

namespace athanor::apps {
namespace {

constexpr size_t kBatchBytes = size_t{1} << 22;

std::string last_part(const std::string& path) {
  return std::filesystem::path(path).lexically_normal().filename().string();
}

// "llama-3" of llama-3, llama-3/ and llama-3/tokenizer.json; otherwise the name of the file.
std::string short_name(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const std::string folder = last_part(parent_folder(path));
  const bool tells_nothing = last_part(path) == kTokenizerFile && !folder.empty() && folder != ".";
  return tells_nothing ? folder : last_part(path);
}

// The last part of each path; where two would have the same name, the parts in which all of them differ.
std::vector<std::string> short_names(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths) names.push_back(short_name(path));
  const std::set<std::string> different(names.begin(), names.end());
  if (different.size() == names.size()) return names;
  std::vector<std::vector<std::string>> parts;
  for (const std::string& path : paths) {
    auto& of = parts.emplace_back();
    for (const auto& part : std::filesystem::path(path).lexically_normal())
      if (!part.empty()) of.push_back(part.string());
  }
  const auto drop_shared = [&](auto at) {  // of all, as long as each has another part
    while (
        std::ranges::all_of(parts, [&](const auto& of) { return of.size() > 1 && at(of) == at(parts[0]); }))
      for (auto& of : parts) of.erase(&at(of) == &of.front() ? of.begin() : of.end() - 1);
  };
  drop_shared([](const auto& of) -> const std::string& { return of.back(); });
  drop_shared([](const auto& of) -> const std::string& { return of.front(); });
  for (size_t i = 0; i < names.size(); ++i) {
    names[i].clear();
    for (const std::string& part : parts[i]) names[i] = names[i].empty() ? part : join_path(names[i], part);
  }
  return names;
}

bool is_tokenizer(Env& env, const std::string& path) {
  if (env.is_folder(path)) return env.exists(join_path(path, kTokenizerFile));
  if (path.ends_with(".model")) return true;
  if (last_part(path) == kTokenizerFile) return true;
  if (!path.ends_with(".json") || !env.exists(path)) return false;
  // JSON documents that talk about tokenizers have these keys with escaped quotes, if at all.
  const std::string text = env.read_text(path);
  return text.find("\"pre_tokenizer\":") != std::string::npos && text.find("\"model\":") != std::string::npos;
}

struct Document {
  size_t channel;
  std::string text;
};

class Comparer {
 public:
  Comparer(std::vector<ComparedTokenizer>& rows, std::vector<std::shared_ptr<const Tokenizer>> tokenizers,
           std::vector<std::string> channels, int threads)
      : rows_(rows), tokenizers_(std::move(tokenizers)), channels_(std::move(channels)), pool_(threads) {}

  // Whether all that was added has been counted.
  bool add(size_t channel, std::string_view text) {
    batch_.push_back({channel, std::string(text)});
    batch_bytes_ += text.size();
    if (batch_bytes_ < kBatchBytes) return false;
    finish();
    return true;
  }

  // Counts what has been added.
  void finish() {
    const size_t count = rows_.size();
    std::vector<std::vector<int32_t>> ids(batch_.size() * count);
    pool_.parallel_for(static_cast<int64_t>(ids.size()), [&](int64_t i) {
      const auto at = static_cast<size_t>(i);
      ids[at] = tokenizers_[at % count]->encode_ordinary(batch_[at / count].text);
    });
    for (size_t d = 0; d < batch_.size(); ++d) {
      const int64_t words = text::count_words(batch_[d].text);
      for (size_t t = 0; t < count; ++t)
        rows_[t].usage.add(channels_[batch_[d].channel], batch_[d].text, words, ids[d * count + t]);
    }
    batch_.clear();
    batch_bytes_ = 0;
  }

 private:
  std::vector<ComparedTokenizer>& rows_;
  std::vector<std::shared_ptr<const Tokenizer>> tokenizers_;
  std::vector<std::string> channels_;
  ThreadPool pool_;
  std::vector<Document> batch_;
  size_t batch_bytes_ = 0;
};

struct TokenizerCompareCommand {
  std::vector<std::string> paths, named_texts;
  std::string text_key = "text", plot;
  int threads = num_usable_cpus();
  bool text_key_given = false, json = false;

  void run() {
    Env& env = system_env();
    std::vector<std::string> tokenizer_paths, texts;
    for (const std::string& path : paths) (is_tokenizer(env, path) ? tokenizer_paths : texts).push_back(path);
    texts.insert(texts.end(), named_texts.begin(), named_texts.end());
    check_arguments(env, tokenizer_paths, texts);
    std::vector<ComparedTokenizer> rows;
    std::vector<std::shared_ptr<const Tokenizer>> tokenizers;
    const std::vector<std::string> names = short_names(tokenizer_paths);
    for (size_t i = 0; i < tokenizer_paths.size(); ++i) {
      const std::string& path = tokenizer_paths[i];
      tokenizers.push_back(load_tokenizer(path));
      rows.push_back({names[i], path, TokenUsage(*tokenizers.back())});
    }
    const std::vector<std::string> channels = short_names(texts);
    Comparer comparer(rows, std::move(tokenizers), channels, threads);
    read(env, texts, channels, comparer);
    if (!plot.empty()) {
      env.create_folders(parent_folder(plot));
      env.write_atomically(plot, comparison_svg(rows));
    }
    show(rows);
  }

  static void check_arguments(Env& env, const std::vector<std::string>& tokenizers,
                              const std::vector<std::string>& texts) {
    for (const std::string& path : texts)
      if (path != kStandardInput) list_sources(env, path);  // finds out before anything is loaded
    if (tokenizers.size() < 2)
      throw ConfigError(fmt::format("tokenizer compare: got {} tokenizer{}{}, expected at least 2",
                                    tokenizers.size(), tokenizers.size() == 1 ? "" : "s",
                                    tokenizers.empty() ? "" : " (" + printable(tokenizers[0]) + ")"),
                        "a tokenizer is a tokenizer.json, a .model, or a folder that holds a tokenizer.json; "
                        "every other path is text");
    if (texts.empty())
      throw ConfigError("tokenizer compare: got no text",
                        "name files or folders of text behind the tokenizers, or after --text");
  }

  void read(Env& env, const std::vector<std::string>& texts, const std::vector<std::string>& channels,
            Comparer& comparer) const {
    uint64_t total = 0, before = 0;
    for (const std::string& path : texts) total += list_sources(env, path).size_bytes();
    ProgressLine line;
    ReadReport all;
    for (size_t channel = 0; channel < texts.size(); ++channel) {
      uint64_t done = 0;
      const auto show = [&] {
        const auto bytes = static_cast<double>(before + done);
        line.update("tokenizing", bytes, static_cast<double>(total),
                    fmt::format("{}, {} of {}", printable(channels[channel]), human_bytes(bytes),
                                human_bytes(static_cast<double>(total))));
      };
      show();
      const ReadReport report = for_each_document(env, texts[channel], {.text_key = text_key},
                                                  [&](std::string_view text, const DocumentPlace& place) {
                                                    const bool is_counted = comparer.add(channel, text);
                                                    done = place.bytes_done;
                                                    if (is_counted) show();
                                                  });
      comparer.finish();
      line.clear();
      say_remarks(report, {texts[channel]});
      check(report.documents > 0, "tokenizer compare: '{}' holds no text", printable(texts[channel]));
      all.add(report);
      before += done;
    }
    if (text_key_given) check_text_key_used(all, text_key);
  }

  void show(const std::vector<ComparedTokenizer>& rows) const {
    if (json) {
      Json document = comparison_json(rows);
      document["svg"] = plot.empty() ? Json(nullptr) : Json(plot);
      return print_json(document);
    }
    const bool color = is_terminal(stdout) && environment_value("NO_COLOR").empty();
    print(comparison_table(rows, {.color = color, .utf8 = true}));
    if (!plot.empty()) print("\npicture: " + printable(plot) + "\n");
  }
};

}  // namespace

void add_tokenizer_compare(CLI::App& tokenizer) {
  const auto command = std::make_shared<TokenizerCompareCommand>();
  CLI::App& app = *tokenizer.add_subcommand("compare", "Compare what tokenizers make of the same texts");
  app.add_option("PATH", command->paths,
                 "two or more tokenizers (a tokenizer.json, a .model, or a folder that holds a "
                 "tokenizer.json); every other path is text")
      ->required();
  app.add_option("--text", command->named_texts, "a text, even where it looks like a tokenizer")
      ->allow_extra_args(false)
      ->type_name("PATH");
  app.add_option("--text-key", command->text_key, "key of the text in JSON")->capture_default_str();
  app.add_option("--threads", command->threads, "threads that tokenize")
      ->capture_default_str()
      ->check(CLI::Range(1, max_threads()));
  app.add_option("--plot", command->plot, "also draw the figures as a picture")->type_name("FILE.svg");
  app.add_flag("--json", command->json, "print one JSON document");
  app.footer(
      "Examples:\n"
      "  athanor tokenizer compare gpt2 llama-3 mine/tokenizer.json raw/en raw/zh raw/code --plot "
      "compared.svg\n"
      "\n"
      "Each text is a channel: a file or a folder with all below it, plain text, JSON lines or CSV, "
      "compressed or "
      "not.\n"
      "A word ends at a space; a character of Chinese, Japanese, Thai, Lao, Khmer, Burmese or Tibetan is a "
      "word of "
      "its own.\n"
      "unused: pieces of the vocabulary that no text uses. Special tokens in the text are read as text.");
  app.callback([command, &app] {
    command->text_key_given = app.count("--text-key") > 0;
    command->run();
  });
}

}  // namespace athanor::apps
