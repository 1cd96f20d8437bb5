// Text to token files: every document through the tokenizer, an end-of-text id after each, before it what the
// tokenizer's files put before a text (text/special_tokens.h).
//
//   const TokenFileInfo info = build_token_file(env, tokenizer, {"data/en"}, "out/en", {.threads = 2});
//   const std::string prefix = cached_token_file(env, tokenizer, "data/en", ".cache", {});
//
// Documents are ordinary text: a special token spelt out in one stays text, but a line of plain text that holds the
// tokenizer's end of text, or <|endoftext|>, and nothing else divides documents. The order of the documents, and
// with it every byte of the result, depends on no thread count. Beside PREFIX.bin and PREFIX.idx lies
// PREFIX.text_bytes (indexed_dataset.h) and PREFIX.meta.json, written last: TokenFileInfo as JSON, with the hash of .bin and
// .idx.
//
// The cache is keyed by content: tokenizer.json, text_key, and names and bytes of the files. Several
// processes may ask for the same text at once: one builds it, the others wait on a lock file (the system
// frees the lock of a process that dies), and nobody ever sees half a file. Thread rule: any thread. Errors:
// those of document_reader.h; a path without a single document is an Error.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/data/document_reader.h"
#include "athanor/text/tokenizer.h"

namespace athanor {

struct TokenizeState {
  std::string source;       // the path being tokenized
  uint64_t bytes_done = 0;  // of the files as they are stored
  uint64_t bytes_total = 0;
  int64_t documents = 0, tokens = 0;
  bool waiting = false;       // another process tokenizes this path; reported once
  bool finished = false;      // reported once, last
  bool run_together = false;  // with `finished`: documents that no end of text tells apart
};
using TokenizeProgress = std::function<void(const TokenizeState& state)>;

struct TokenizeOptions {
  std::string text_key = "text";
  int threads = 1;
  bool text_key_given = false;  // then it must count for something: check_text_key_used
  TokenizeProgress progress;    // called from the calling thread, a few times per MiB of text at most
  const std::atomic<int>* stop =
      nullptr;  // not zero: Interrupted, also while waiting; no half-made file stays
};

struct TokenFileInfo {
  int64_t documents = 0, tokens = 0;
  int64_t bytes = 0;  // of text
  ReadReport read;    // what was read and what was left out
  std::string tokenizer_hash;
  int64_t vocab_size = 0;
  int64_t end_of_text = -1;  // -1: the tokenizer has none, documents follow each other directly
  std::string text_key;
  std::vector<std::string> source;
  std::string content_hash;  // IndexedDataset::full_hash
};

std::string tokenizer_hash(const Tokenizer& tokenizer);

// What divides documents in plain text that this tokenizer is to read.
std::vector<std::string> document_separators(const Tokenizer& tokenizer);

TokenFileInfo build_token_file(Env& env, const Tokenizer& tokenizer, const std::vector<std::string>& paths,
                               const std::string& prefix, const TokenizeOptions& options);

// The prefix of the token file of a path, built now if this is the first time.
std::string cached_token_file(Env& env, const Tokenizer& tokenizer, const std::string& path,
                              const std::string& cache_folder, const TokenizeOptions& options);

std::string token_file_info_json(const TokenFileInfo& info);

// PREFIX.meta.json; empty where a token file has none (Megatron's have none).
std::optional<TokenFileInfo> read_token_file_info(Env& env, const std::string& prefix);

}  // namespace athanor
