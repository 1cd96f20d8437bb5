#include "athanor/corpus/filters/keywords.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "athanor/base/error.h"
#include "athanor/corpus/filters/normal_words.h"
#include "athanor/corpus/filters/word_list.h"
#include "athanor/text/unicode.h"

namespace athanor::corpus::filters {

namespace keywords_local {

bool joins(uint32_t c) {
  return c != athanor::text::kInvalidByte && athanor::text::is_word(c) && !athanor::text::is_chinese(c);
}
bool joins_at(std::string_view text, size_t at) {
  return at < text.size() && joins(athanor::text::decode_utf8(text, at).value);
}
bool joins_before(std::string_view text, size_t at) {
  if (at == 0) return false;
  size_t begin = at - 1;
  while (begin > 0 && at - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return joins(athanor::text::decode_utf8(text, begin).value);
}

// A table of next states; bytes that no entry holds share one column.
class Automaton {
 public:
  explicit Automaton(const std::vector<std::string>& entries) {
    for (const std::string& entry : entries)
      for (const char c : entry)
        if (uint16_t& column = columns_[static_cast<unsigned char>(c)]; column == 0) column = num_columns_++;
    add_state();
    for (const std::string& entry : entries) insert(entry);
    link();
  }

  // visit(length) for each entry that ends behind byte c.
  template <typename Visit>
  uint32_t step(uint32_t state, char c, const Visit& visit) const {
    state = next_[size_t{state} * num_columns_ + columns_[static_cast<unsigned char>(c)]];
    for (uint32_t at = lengths_[state] > 0 ? state : shorter_[state]; at != 0; at = shorter_[at])
      visit(lengths_[at]);
    return state;
  }

 private:
  void add_state() {
    next_.resize(next_.size() + num_columns_);
    lengths_.push_back(0);
    shorter_.push_back(0);
  }

  void insert(const std::string& entry) {
    uint32_t state = 0;
    for (const char c : entry) {
      const size_t slot = size_t{state} * num_columns_ + columns_[static_cast<unsigned char>(c)];
      if (next_[slot] == 0) {
        next_[slot] = static_cast<uint32_t>(lengths_.size());
        add_state();
      }
      state = next_[slot];
    }
    lengths_[state] = entry.size();
  }

  // Breadth first: the state of the longest proper suffix is complete before those that need it.
  void link() {
    std::vector<uint32_t> suffix(lengths_.size(), 0), queue = {0};
    for (size_t i = 0; i < queue.size(); ++i) {
      const uint32_t state = queue[i];
      for (size_t column = 0; column < num_columns_; ++column) {
        uint32_t& child = next_[size_t{state} * num_columns_ + column];
        const uint32_t fallback = state == 0 ? 0 : next_[size_t{suffix[state]} * num_columns_ + column];
        if (child == 0) {
          child = fallback;
          continue;
        }
        suffix[child] = fallback;
        shorter_[child] = lengths_[fallback] > 0 ? fallback : shorter_[fallback];
        queue.push_back(child);
      }
    }
  }

  std::array<uint16_t, 256> columns_ = {};
  uint16_t num_columns_ = 1;
  std::vector<uint32_t> next_;
  std::vector<size_t> lengths_;    // of the entry that ends in a state; 0: none
  std::vector<uint32_t> shorter_;  // the state of the next shorter entry that ends there; 0: none
};

std::vector<std::string> entries_of(const KeywordOptions& options) {
  std::vector<std::string> entries = read_list(options.words, options.file);
  std::erase(entries, "");
  if (entries.empty())
    throw ConfigError("keywords.words: got no entry, expected at least one, here or in keywords.file");
  if (options.ignore_case)
    for (std::string& entry : entries) entry = lower_text(entry);
  return entries;
}

class Keywords final : public Stage {
 public:
  explicit Keywords(const KeywordOptions& options)
      : automaton_(entries_of(options)),
        whole_words_(options.whole_words),
        ignore_case_(options.ignore_case) {
    scores_ = {{options.name + ".count", "places at which an entry ends"},
               {options.name + ".share", "bytes that entries cover / bytes"}};
    if (options.keep) {
      rules_.push_back({.name = scores_[0].name, .score = 0, .least = 1});
      return;
    }
    if (options.most >= 0)
      rules_.push_back({.name = scores_[0].name, .score = 0, .most = static_cast<double>(options.most)});
    rules_.push_back({.name = scores_[1].name, .score = 1, .most = options.most_share});
  }

  const std::vector<Score>& scores() const override { return scores_; }
  const std::vector<Rule>& rules() const override { return rules_; }

  void annotate(Document& document, std::span<double> values) const override {
    const std::string lower = ignore_case_ ? lower_text(document.text) : std::string();
    const std::string_view body = ignore_case_ ? std::string_view(lower) : std::string_view(document.text);
    size_t count = 0;
    std::vector<std::pair<size_t, size_t>> spans;
    uint32_t state = 0;
    for (size_t at = 0; at < body.size(); ++at)
      state = automaton_.step(state, body[at], [&](size_t length) {
        const size_t end = at + 1, begin = end - length;
        if (whole_words_ && ((joins_at(body, begin) && joins_before(body, begin)) ||
                             (joins_before(body, end) && joins_at(body, end))))
          return;
        ++count;
        // Ends grow; what this one covers of the spans before it is merged, so each byte counts once.
        size_t from = begin;
        while (!spans.empty() && spans.back().second >= from) {
          from = std::min(from, spans.back().first);
          spans.pop_back();
        }
        spans.emplace_back(from, end);
      });
    size_t covered = 0;
    for (const auto& [begin, end] : spans) covered += end - begin;
    values[0] = static_cast<double>(count);
    values[1] = body.empty() ? NAN : static_cast<double>(covered) / static_cast<double>(body.size());
  }

 private:
  Automaton automaton_;
  bool whole_words_;
  bool ignore_case_;
  std::vector<Score> scores_;
  std::vector<Rule> rules_;
};

}  // namespace keywords_local

const std::vector<Field<KeywordOptions>>& keyword_fields() {
  using O = KeywordOptions;
  static const std::vector<Field<O>> fields = {
      {"keywords",
       "name",
       "first part of the names of scores and rules",
       "With several such stages.",
       config::slot_of<&O::name>,
       {}},
      {"keywords",
       "words",
       "words or phrases to count",
       "For a few; a file holds many.",
       config::slot_of<&O::words>,
       {}},
      {"keywords",
       "file",
       "file of words or phrases, one a line",
       "",
       config::slot_of<&O::file>,
       {.is_path = true}},
      {"keywords",
       "whole_words",
       "whether an entry must be a whole word",
       "Off finds parts of words, too.",
       config::slot_of<&O::whole_words>,
       {}},
      {"keywords",
       "ignore_case",
       "whether capitals are as good as small letters",
       "Off is faster.",
       config::slot_of<&O::ignore_case>,
       {}},
      {"keywords",
       "keep",
       "whether only documents with an entry are kept",
       "To choose texts on a subject.",
       config::slot_of<&O::keep>,
       {}},
      {"keywords",
       "most",
       "entries that a document may have; -1: any number",
       "Above 0 for words that may be harmless.",
       config::slot_of<&O::most>,
       {.range = {.low = -1}}},
      {"keywords",
       "most_share",
       "share of the bytes that entries may cover",
       "For long documents, in place of most.",
       config::slot_of<&O::most_share>,
       {.range = {.low = 0, .high = 1}}},
  };
  return fields;
}

std::unique_ptr<Stage> make_keywords(const KeywordOptions& options) {
  return std::make_unique<keywords_local::Keywords>(options);
}

}  // namespace athanor::corpus::filters
