#include "athanor/text/trainers/trainer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/base/nearest.h"
#include "athanor/base/thread_pool.h"
#include "athanor/text/normalizers/normalizer.h"
#include "athanor/text/trainers/train_types.h"
#include "athanor/text/trainers/training_words.h"
#include "athanor/text/unicode.h"

namespace athanor::text::trainers {
namespace {

constexpr int64_t kLeastMemoryBytes = int64_t{1} << 20;

struct Type {
  std::string name;
  std::string (*train)(const text::WordCounts&, const TokenizerTrainerOptions&);
  text::WordSplitter (*splitter)(const TokenizerTrainerOptions&);
  bool needs_utf8;
  const char* fixed_alphabet;  // why coverage and max_alphabet mean nothing; null where they work
  int64_t memory_share;  // learning takes so many times what the counted words take; 0: none is left out
};

text::WordSplitter by_pattern(const TokenizerTrainerOptions& options) {
  return text::split_by(text::pattern_named(options.pattern));
}
text::WordSplitter by_bert(const TokenizerTrainerOptions&) {
  return text::word_piece_splitter();
}
text::WordSplitter by_char(const TokenizerTrainerOptions&) {
  return text::split_chars;
}

const std::array<Type, 5>& types() {
  static const std::array<Type, 5> table = {
      {{"byte-bpe", text::train_byte_bpe, by_pattern, false, "the 256 bytes", 4},
       {"bpe", text::train_bpe, by_pattern, false, nullptr, 4},
       {"wordpiece", text::train_word_piece, by_bert, true, nullptr, 4},
       {"unigram", text::train_unigram, by_pattern, false, nullptr, 10},
       {"char", text::train_char, by_char, true, "every character of the text", 0}}};
  return table;
}

constexpr std::string_view kO200kRegex =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

[[noreturn]] void fail_name(const std::string& what, const std::string& got,
                            const std::vector<std::string>& known) {
  const std::string nearest = nearest_name(got, known);
  throw ConfigError(fmt::format("{}: got '{}', expected {}", what, got, fmt::join(known, ", ")),
                    nearest.empty() ? "" : fmt::format("did you mean '{}'?", nearest));
}

const Type& trainer_type(const std::string& name) {
  const auto found = std::ranges::find(types(), name, &Type::name);
  if (found == types().end()) fail_name("tokenizer type", name, tokenizer_types());
  return *found;
}

void check_alphabet(const TokenizerTrainerOptions& options, const Type& type) {
  if (!(options.coverage >= 0 && options.coverage <= 1))
    throw ConfigError(fmt::format("coverage: got {}, expected more than 0 and at most 1", options.coverage));
  if (options.max_alphabet < 0)
    throw ConfigError(fmt::format("alphabet: got {}, expected 1 or more", options.max_alphabet));
  const std::string name = options.coverage > 0 ? "coverage" : options.max_alphabet > 0 ? "alphabet" : "";
  if (!name.empty() && type.fixed_alphabet)
    throw ConfigError(
        fmt::format("{}: is not for type {}, whose alphabet is {}", name, type.name, type.fixed_alphabet),
        "it works for bpe, unigram and wordpiece");
}

// What the tokenizer.json of these options will do to text before it cuts it.
text::trainers::TextRewriter rewriter_of(const TokenizerTrainerOptions& options) {
  const OrderedJson json = normalizer_of(options);
  if (json.is_null()) return {};
  const text::JsonFile file("normalizer", json.dump());
  const std::shared_ptr<const text::normalizers::Normalizer> normalizer =
      text::normalizers::parse_normalizer(file.root());
  return [normalizer](std::string_view text) { return normalizer->applied(text); };
}

TokenizerTrainerOptions checked(TokenizerTrainerOptions options) {
  if (options.vocab_size < 0 || options.vocab_size > INT32_MAX)
    throw ConfigError(fmt::format("vocab_size: got {}, expected 1 to {}", options.vocab_size, INT32_MAX));
  if (options.min_frequency < 0)
    throw ConfigError(fmt::format("min_frequency: got {}, expected 0 or more", options.min_frequency));
  check_alphabet(options, trainer_type(options.type));
  if (options.max_token_length < 0)
    throw ConfigError(fmt::format("max_token_length: got {}, expected 1 or more", options.max_token_length));
  if (options.max_token_length > 0 && options.type == "char")
    throw ConfigError("max_token_length: is not for type char, whose tokens have one character each",
                      "it works for byte-bpe, bpe, unigram and wordpiece");
  normalizer_of(options);
  if (options.memory_bytes != 0 && options.memory_bytes < kLeastMemoryBytes)
    throw ConfigError(fmt::format("memory: got {}, expected at least {}",
                                  human_bytes(static_cast<double>(options.memory_bytes)),
                                  human_bytes(static_cast<double>(kLeastMemoryBytes))));
  check(options.memory_bytes == 0 || (options.env != nullptr && !options.scratch_folder.empty()),
        "tokenizer training: bounded memory needs a folder for what does not fit");
  if (options.num_threads < 1)
    throw ConfigError(fmt::format("threads: got {}, expected 1 or more", options.num_threads));
  std::set<std::string> seen;
  for (const std::string& token : options.special_tokens) {
    if (token.empty()) throw ConfigError("special token: is empty");
    if (text::find_invalid_utf8(token) != std::string::npos)
      throw ConfigError("special token: '" + token + "' is not UTF-8");
    if (!seen.insert(token).second) throw ConfigError("special token: '" + token + "' stands twice");
  }
  return options;
}

}  // namespace

const std::vector<std::string>& tokenizer_types() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Type& type : types()) list.push_back(type.name);
    return list;
  }();
  return names;
}

const std::vector<std::string>& tokenizer_patterns() {
  static const std::vector<std::string> names = {"gpt2", "cl100k", "llama3", "qwen2"};
  return names;
}

WordPattern pattern_named(const std::string& name) {
  if (name == "gpt2") return WordPattern::gpt2;
  if (name == "cl100k" || name == "llama3") return WordPattern::cl100k;
  if (name == "qwen2") return WordPattern::qwen2;
  fail_name("pattern", name, tokenizer_patterns());
}

std::string pattern_regex(const std::string& pattern) {
  if (pattern == "o200k") return std::string(kO200kRegex);
  if (pattern == "p50k" || pattern == "r50k") return std::string(regex_of(WordPattern::gpt2));
  const bool is_name =
      std::ranges::all_of(pattern, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
  return is_name ? std::string(regex_of(pattern_named(pattern))) : pattern;
}

struct TokenizerTrainer::State {
  TokenizerTrainerOptions options;
  const Type& type;
  ThreadPool pool;
  text::CorpusWords corpus;
  int64_t num_documents = 0;
  LearnedWords learned = {};

  explicit State(TokenizerTrainerOptions given)
      : options(checked(std::move(given))),
        type(trainer_type(options.type)),
        pool(std::max(options.num_threads, 1)),
        corpus(type.splitter(options), pool, rewriter_of(options),
               {options.env, options.scratch_folder, options.memory_bytes}) {}
};

TokenizerTrainer::TokenizerTrainer(TokenizerTrainerOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}

TokenizerTrainer::~TokenizerTrainer() = default;

void TokenizerTrainer::add(std::string_view document) {
  State& s = *state_;
  if (s.type.needs_utf8) {
    const size_t bad = text::find_invalid_utf8(document);
    check(bad == std::string_view::npos,
          "tokenizer training: document {} is not UTF-8: byte 0x{:02X} at offset {}", s.num_documents + 1,
          bad < document.size() ? static_cast<uint8_t>(document[bad]) : 0, bad);
  }
  s.corpus.add(document);
  ++s.num_documents;
}

std::string TokenizerTrainer::finish() {
  State& s = *state_;
  check(s.corpus.bytes_read() > 0, "tokenizer training: no text in {} documents", s.num_documents);
  const KeptWords kept =
      s.corpus.finish(s.options.memory_bytes == 0 || s.type.memory_share == 0
                          ? UINT64_MAX
                          : static_cast<uint64_t>(s.options.memory_bytes / s.type.memory_share));
  s.learned = {kept.words, kept.all_words, kept.occurrences, kept.all_occurrences};
  return s.type.train(kept.counts, s.options);
}

const LearnedWords& TokenizerTrainer::learned() const {
  return state_->learned;
}

int64_t TokenizerTrainer::bytes_read() const {
  return state_->corpus.bytes_read();
}

}  // namespace athanor::text::trainers
