#include "athanor/corpus/filters/decontaminate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"
#include "athanor/corpus/filters/normal_words.h"
#include "athanor/documents/byte_source.h"

namespace athanor::corpus::filters {

namespace decontaminate_local {

std::string whole_file(const std::string& path) {
  const auto source = open_bytes(system_env(), path);
  std::string text;
  std::vector<char> chunk(1 << 16);
  while (const size_t got = source->read(chunk.data(), chunk.size())) text.append(chunk.data(), got);
  return text;
}

std::string task_name(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.substr(0, name.find('.', 1));
}

void add_entries(const nlohmann::json& value, std::vector<std::string>& entries) {
  if (value.is_string()) entries.push_back(value.get<std::string>());
  if (value.is_array())
    for (const nlohmann::json& part : value) add_entries(part, entries);
}

std::vector<std::string> entries_of(const std::string& path, const std::vector<std::string>& keys) {
  const std::string text = whole_file(path);
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool json = first != std::string::npos && text[first] == '{';
  std::vector<std::string> entries;
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (!json) {
      entries.push_back(line);
      continue;
    }
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
    check(object.is_object(), "decontaminate: '{}' line {} is no JSON object, expected one a line", path,
          number);
    bool any = false;
    for (const std::string& key : keys)
      if (const auto found = object.find(key); found != object.end()) {
        add_entries(*found, entries);
        any = true;
      }
    check(any, "decontaminate: '{}' line {} has none of the keys [{}]", path, number, fmt::join(keys, ", "));
  }
  return entries;
}

uint64_t gram_hash(const uint64_t* words, size_t count) {
  return hash64(words, count * sizeof(uint64_t), count);
}

class Decontaminate final : public Stage {
 public:
  explicit Decontaminate(const DecontaminateOptions& options) {
    if (options.least_words < 1 || options.ngram < options.least_words)
      throw ConfigError(
          fmt::format("decontaminate.ngram: got {} and least_words {}, expected 1 <= least_words <= ngram",
                      options.ngram, options.least_words));
    const auto ngram = static_cast<size_t>(options.ngram), least = static_cast<size_t>(options.least_words);
    std::vector<uint64_t> words;
    for (const std::string& path : options.files) {
      const std::string name = "decontaminate." + task_name(path);
      for (const Score& score : scores_)
        check(score.name != name, "decontaminate.files: got two tasks {}", name);
      const size_t task = scores_.size();
      const size_t before = total_;
      for (const std::string& entry : entries_of(path, options.keys)) {
        normal_words(entry, words);
        if (words.size() < least) continue;
        const size_t length = std::min(words.size(), ngram);
        for (size_t at = 0; at + length <= words.size(); ++at) add(words.data() + at, length, task);
      }
      check(total_ > before, "decontaminate: '{}' has no entry of {} words or more", path, least);
      scores_.push_back(
          {name, fmt::format("places at which {} words in a row, or a whole entry of {} or more, begin",
                             ngram, least)});
      rules_.push_back({.name = name, .score = task, .most = static_cast<double>(options.most)});
    }
  }

  const std::vector<Score>& scores() const override { return scores_; }
  const std::vector<Rule>& rules() const override { return rules_; }

  void annotate(Document& document, std::span<double> values) const override {
    std::fill(values.begin(), values.end(), 0.0);
    std::vector<uint64_t> words;
    normal_words(document.text, words);
    for (size_t at = 0; at < words.size(); ++at)
      for (const size_t length : lengths_) {
        if (at + length > words.size()) continue;
        if (const auto found = grams_.find(gram_hash(words.data() + at, length)); found != grams_.end())
          for (const size_t task : found->second) values[task] += 1.0;
      }
  }

 private:
  void add(const uint64_t* words, size_t length, size_t task) {
    if (std::find(lengths_.begin(), lengths_.end(), length) == lengths_.end()) lengths_.push_back(length);
    std::vector<size_t>& tasks = grams_[gram_hash(words, length)];
    if (tasks.empty() || tasks.back() != task) tasks.push_back(task);
    ++total_;
  }

  std::unordered_map<uint64_t, std::vector<size_t>> grams_;  // the tasks that have it
  std::vector<size_t> lengths_;
  std::vector<Score> scores_;
  std::vector<Rule> rules_;
  size_t total_ = 0;
};

}  // namespace decontaminate_local

const std::vector<Field<DecontaminateOptions>>& decontaminate_fields() {
  using O = DecontaminateOptions;
  static const std::vector<Field<O>> fields = {
      {"decontaminate",
       "files",
       "evaluation files, one task each",
       "Those that a model will be judged by.",
       config::slot_of<&O::files>,
       {.is_path = true}},
      {"decontaminate",
       "keys",
       "keys of JSON lines whose strings are looked for",
       "Question and answer in one key find more than the question alone.",
       config::slot_of<&O::keys>,
       {}},
      {"decontaminate",
       "ngram",
       "words in a row that count as a hit",
       "Fewer find more and take more by chance.",
       config::slot_of<&O::ngram>,
       {.range = {.low = 1}}},
      {"decontaminate",
       "least_words",
       "words that a shorter entry must have to be looked for as a whole",
       "Fewer drop documents for common phrases.",
       config::slot_of<&O::least_words>,
       {.range = {.low = 1}}},
      {"decontaminate",
       "most",
       "hits of a task that a document may have",
       "0: one hit drops it.",
       config::slot_of<&O::most>,
       {.range = {.low = 0}}},
  };
  return fields;
}

std::unique_ptr<Stage> make_decontaminate(const DecontaminateOptions& options) {
  return std::make_unique<decontaminate_local::Decontaminate>(options);
}

}  // namespace athanor::corpus::filters
