// Tokenizes text into token files. Each document becomes SpecialTokens::before (text/special_tokens.h), its ids, and an
// end-of-text id.
//
//   const TokenFileInfo info = build_token_file(env, tokenizer, {"data/en"}, "out/en", {.threads = 2});
//   const std::string prefix = cached_token_file(env, tokenizer, "data/en", ".cache", {});
//
// Documents are ordinary text: a special token spelled out in a document stays text. But a line of plain text that
// holds only the tokenizer's end-of-text token, or only <|endoftext|>, divides documents. Every byte of the result is
// independent of the number of threads and processes. Files: PREFIX.bin, PREFIX.idx, PREFIX.text_bytes, PREFIX.sources
// (indexed_dataset.h), and last PREFIX.meta.json, which is TokenFileInfo as JSON with a hash of .bin and .idx.
//
// A large text is made in parts, in the folder PREFIX.build until all are there (building/token_file_build.h). The same
// call goes on with the parts that an earlier one has finished, however that one ended; one with another tokenizer,
// setting or changed files starts anew. The same call in several processes at once, on one machine or on several that
// share the disk, shares the work. Nothing at the prefix changes before the new files are whole.
//
// The cache is keyed by content: tokenizer.json, text_key or what says how conversations become ids, and names and bytes
// of the files. Several processes may ask
// for the same text at once: one builds it, the others wait on a lock file (the system frees the lock of a process that
// dies), and no process sees a half-written file. Thread rule: any thread. Errors: those of
// documents/document_reader.h; Error for a path without a single document, and for a file that changes meanwhile;
// Interrupted.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/data/fill_in_the_middle.h"
#include "athanor/documents/document_reader.h"
#include "athanor/text/tokenizer.h"

namespace athanor::data::instructions {
class InstructionEncoder;
}  // namespace athanor::data::instructions

namespace athanor::data {

struct TokenizeState {
  std::string source;       // the path being tokenized
  uint64_t bytes_done = 0;  // of the stored files, compressed or not
  uint64_t bytes_total = 0;
  int64_t documents = 0, tokens = 0;
  bool waiting = false;     // another process tokenizes this path; reported once
  int64_t parts_found = 0;  // that an unfinished build of the same has left, or others at work; reported once
  bool starts_anew = false;   // an unfinished build was of other text or settings; reported once
  std::string untraced_part;  // has lost its .sources, so the result gets none; reported once
  bool finished = false;      // reported once, last
  bool run_together = false;  // with `finished`: no end of text divides the documents
};
using TokenizeProgress = std::function<void(const TokenizeState& state)>;

// Text of a part, about; a kill loses at most one of them for each process.
constexpr uint64_t kPartBytes = uint64_t{64} << 20;

struct TokenizeOptions {
  std::string text_key = "text";
  int threads = 1;
  bool text_key_given = false;     // the user set text_key: check_text_key_used() applies
  TokenizeProgress progress = {};  // called in the calling thread, at most a few times per MiB of text
  const std::atomic<int>* stop =
      nullptr;  // nonzero: Interrupted, also while waiting; finished parts stay for the next call
  // Documents are conversations with a loss on the answers alone (instructions/instruction_encoder.h), and the files must
  // be JSON. Null: documents are texts under text_key.
  const instructions::InstructionEncoder* instructions = nullptr;
  const FillInTheMiddle* fim = nullptr;  // how texts become ids; null: as they stand
  uint64_t part_bytes = kPartBytes;      // the result does not depend on it
};

struct TokenFileInfo {
  int64_t documents = 0, tokens = 0;
  int64_t bytes = 0;  // of text
  ReadReport read;    // what was read and what was left out
  std::string tokenizer_hash;
  int64_t vocab_size = 0;
  int64_t end_of_text = -1;  // -1: the tokenizer has none; documents follow each other directly
  std::string text_key;
  std::vector<std::string> source;
  std::string content_hash;  // IndexedDataset::full_hash
};

std::string tokenizer_hash(const Tokenizer& tokenizer);

// The separator lines that divide documents in plain text for this tokenizer.
std::vector<std::string> document_separators(const Tokenizer& tokenizer);

TokenFileInfo build_token_file(Env& env, const Tokenizer& tokenizer, const std::vector<std::string>& paths,
                               const std::string& prefix, const TokenizeOptions& options);

// The prefix of the cached token file of a path; builds the file if it is not there yet.
std::string cached_token_file(Env& env, const Tokenizer& tokenizer, const std::string& path,
                              const std::string& cache_folder, const TokenizeOptions& options);

std::string token_file_info_json(const TokenFileInfo& info);

TokenFileInfo parse_token_file_info(const std::string& json, const std::string& path);  // path: for messages

// PREFIX.meta.json; none if the token file has none (files made by Megatron-LM).
std::optional<TokenFileInfo> read_token_file_info(Env& env, const std::string& prefix);

}  // namespace athanor::data
