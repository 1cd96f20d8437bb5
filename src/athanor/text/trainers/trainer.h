// Trains a tokenizer from documents and writes it as a Hugging Face tokenizer.json.
//
//   TokenizerTrainer trainer({.type = "byte-bpe", .vocab_size = 8192});
//   trainer.add(document);                    // any number of times
//   env.write_atomically("tokenizer.json", trainer.finish());
//
// The same documents in the same order give the same bytes, whatever num_threads is. Types:
//   byte-bpe   BPE over bytes (GPT-2): lossless for any bytes
//   bpe        BPE over characters, rare characters as bytes: lossless for any bytes
//   unigram    unigram language model over the same words and characters as bpe: lossless for any bytes
//   wordpiece  BERT's, cased: text must be UTF-8; runs of spaces are lost, unknown words become [UNK]
//   char       one id per Unicode code point seen; others become <unk>. Text must be UTF-8
// Errors: wrong options are a ConfigError; text that the type cannot take, or no text at all, is an Error.
// Thread rule: one thread at a time; it runs num_threads of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/base/namespaces.h"

namespace athanor::text::trainers {

struct TokenizerTrainerOptions {
  std::string type = "byte-bpe";
  int64_t vocab_size =
      0;  // special tokens included; 0: 30000, and as many as there are characters for "char"
  std::vector<std::string> special_tokens = {"<|endoftext|>"};  // ids 0, 1, ...
  std::string pattern = "gpt2";  // how text is split into words: gpt2, cl100k, llama3 or qwen2
  int64_t min_frequency = 0;     // a pair must occur this often to be merged
  // The share of the text whose characters get a token, the rarest left out, and how many characters may get one. For
  // bpe, unigram and wordpiece; 0: 0.9995, and as many as there is room for.
  double coverage = 0;
  int64_t max_alphabet = 0;
  // Steps that text goes through before it is cut, in order: nfc, nfd, nfkc, nfkd, lowercase, strip_accents (behind nfd
  // or nfkd), or "none" alone. WordPiece's own normalizer comes before them, unless it is "none".
  std::vector<std::string> normalizer = {};
  // Of what is learned, in characters, of byte-bpe in bytes; not for char. 0: any length, of unigram 16.
  int64_t max_token_length = 0;
  // What the training may take of memory, beside the program, a document and 64 MiB; 0: what it needs. Counted words that
  // do not fit go to `scratch_folder`, which is made and removed, and the rarest are left out where all cannot be learned
  // from at a time.
  int64_t memory_bytes = 0;
  base::Env* env = nullptr;
  std::string scratch_folder = {};
  int num_threads = 1;
  // Called now and then: tokens so far, tokens wanted (unigram: tokens wanted, tokens left).
  std::function<void(int64_t, int64_t)> progress = {};
};

// The distinct words that were learned from, of all that the text has, and how often they occur there.
struct LearnedWords {
  int64_t words = 0, all_words = 0;
  int64_t occurrences = 0, all_occurrences = 0;
};

// The types that can be trained, for messages and help.
const std::vector<std::string>& tokenizer_types();
const std::vector<std::string>& tokenizer_patterns();

class TokenizerTrainer {
 public:
  explicit TokenizerTrainer(TokenizerTrainerOptions options);
  ~TokenizerTrainer();
  TokenizerTrainer(const TokenizerTrainer&) = delete;
  TokenizerTrainer& operator=(const TokenizerTrainer&) = delete;

  void add(std::string_view document);
  std::string finish();  // the tokenizer.json; ends the training
  int64_t bytes_read() const;
  const LearnedWords& learned() const;  // after finish()

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace athanor::text::trainers

namespace athanor {
using text::trainers::LearnedWords;
using text::trainers::tokenizer_patterns;
using text::trainers::tokenizer_types;
using text::trainers::TokenizerTrainer;
using text::trainers::TokenizerTrainerOptions;
}  // namespace athanor
