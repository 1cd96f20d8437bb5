#include "athanor/data/tokenize.h"

#include <filesystem>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/file_lock.h"
#include "athanor/base/hash.h"
#include "athanor/base/interrupted.h"
#include "athanor/base/thread_pool.h"
#include "athanor/data/content_key.h"
#include "athanor/data/indexed_dataset.h"
#include "athanor/data/instructions/instruction_encoder.h"
#include "athanor/documents/document_reader.h"

namespace athanor::data {
namespace {

// Size of a batch of documents that all threads encode together; nothing is read meanwhile. Small enough to keep in
// memory, large enough that waiting for the last thread does not matter.
constexpr size_t kBatchBytes = size_t{8} << 20;
constexpr size_t kBatchDocuments = 8192;

bool is_stopped(const TokenizeOptions& options) {
  return options.stop != nullptr && options.stop->load() != 0;
}

void refuse_if_stopped(const TokenizeOptions& options) {
  if (is_stopped(options)) throw Interrupted("tokenizing was interrupted");
}

class Encoder {
 public:
  Encoder(const Tokenizer& tokenizer, IndexedWriter& writer, const TokenizeOptions& options)
      : tokenizer_(tokenizer), writer_(writer), options_(options), pool_(options.threads) {}

  // True where a batch was encoded and written.
  bool add(std::string_view text, const DocumentPlace& place) {
    refuse_if_stopped(options_);
    texts_.emplace_back(text);
    if (options_.instructions) places_.push_back(fmt::format("'{}' line {}", place.file, place.line));
    waiting_bytes_ += text.size();
    if (waiting_bytes_ < kBatchBytes && texts_.size() < kBatchDocuments) return false;
    finish_batch();
    return true;
  }
  void finish_batch() {
    std::vector<MaskedIds> documents(texts_.size());
    pool_.parallel_for(static_cast<int64_t>(texts_.size()), [&](int64_t i) {
      if (is_stopped(options_)) return;
      const auto at = static_cast<size_t>(i);
      if (options_.instructions)
        documents[at] = options_.instructions->encode(texts_[at], places_[at]);
      else
        documents[at] = {.ids = options_.fim != nullptr ? options_.fim->encode_document(texts_[at])
                                                        : tokenizer_.encode_document(texts_[at]),
                         .loss_mask = {},
                         .text_bytes = static_cast<int64_t>(texts_[at].size())};
    });
    refuse_if_stopped(options_);
    for (const MaskedIds& document : documents)
      writer_.add_document(document.ids, document.text_bytes, document.loss_mask);
    texts_.clear();
    places_.clear();
    waiting_bytes_ = 0;
  }

 private:
  const Tokenizer& tokenizer_;
  IndexedWriter& writer_;
  const TokenizeOptions& options_;
  ThreadPool pool_;
  std::vector<std::string> texts_;
  std::vector<std::string> places_;  // of conversations, for messages
  size_t waiting_bytes_ = 0;
};

void remove_quietly(Env& env, const std::string& path) {
  try {
    env.remove_all(path);
  } catch (const IoError&) {  // the error that brought us here is the one worth reporting
  }
}

bool is_complete(Env& env, const std::string& prefix) {
  return env.exists(prefix + ".meta.json") && env.exists(prefix + ".bin") && env.exists(prefix + ".idx") &&
         env.exists(prefix + ".text_bytes");
}

[[noreturn]] void refuse_without_text(const std::string& path, const ReadReport& read) {
  std::string found = fmt::format("{} files read", read.files);
  if (!read.left_out.empty())
    found += fmt::format(", {} left out: {} ({}){}", read.left_out.size(), read.left_out[0].file,
                         read.left_out[0].reason, read.left_out.size() > 1 ? ", ..." : "");
  fail("'{}': no text in it ({}), expected a document", path, found);
}

}  // namespace

std::vector<std::string> document_separators(const Tokenizer& tokenizer) {
  std::vector<std::string> separators = {std::string(kEndOfTextWord)};
  if (const auto end = tokenizer.end_of_text())
    if (std::string word = tokenizer.token_of(*end); !word.empty() && word != kEndOfTextWord)
      separators.push_back(std::move(word));
  return separators;
}

TokenFileInfo build_token_file(Env& env, const Tokenizer& tokenizer, const std::vector<std::string>& paths,
                               const std::string& prefix, const TokenizeOptions& options) {
  TokenizeState state;
  std::vector<uint64_t> path_bytes;
  for (const std::string& path : paths) {
    path_bytes.push_back(list_sources(env, path).size_bytes());
    state.bytes_total += path_bytes.back();
  }

  env.create_folders(parent_folder(prefix));
  const std::string meta = prefix + ".meta.json";
  TokenFileInfo info;
  info.source = paths;
  info.text_key = options.instructions ? options.instructions->keys() : options.text_key;
  info.tokenizer_hash = tokenizer_hash(tokenizer);
  info.vocab_size = tokenizer.vocab_size();
  info.end_of_text = tokenizer.end_of_text().value_or(-1);

  IndexedWriter writer(env, prefix, tokenizer.vocab_size());
  Encoder encoder(tokenizer, writer, options);
  const auto report = [&](bool finished) {
    state.documents = writer.num_documents();
    state.tokens = writer.num_tokens();
    state.finished = finished;
    if (options.progress) options.progress(state);
  };
  uint64_t bytes_before = 0;
  const ReadOptions how{.text_key = options.text_key,
                        .separators = document_separators(tokenizer),
                        .whole_object = options.instructions != nullptr};
  for (size_t p = 0; p < paths.size(); ++p) {
    const std::string& path = state.source = paths[p];
    report(false);
    ReadReport read =
        for_each_document(env, path, how, [&](std::string_view text, const DocumentPlace& place) {
          if (!encoder.add(text, place)) return;
          state.bytes_done = bytes_before + place.bytes_done;
          report(false);
        });
    if (read.documents == 0) refuse_without_text(path, read);
    if (paths.size() > 1)
      for (LeftOut& entry : read.left_out) entry.file = join_path(path, entry.file);
    info.read.add(read);
    bytes_before += path_bytes[p];
  }
  if (options.text_key_given) check_text_key_used(info.read, options.text_key);
  info.bytes = info.read.text_bytes;
  encoder.finish_batch();
  env.remove_all(meta);  // from here on the files of an earlier build are not complete
  writer.finish();
  info.documents = writer.num_documents();
  info.tokens = writer.num_tokens();
  try {
    info.content_hash = IndexedDataset(prefix).full_hash();
    env.write_atomically(meta, token_file_info_json(info));
  } catch (const Failure&) {
    for (const char* suffix : {".idx", ".bin", ".text_bytes", ".loss_mask", ".meta.json"})
      remove_quietly(env, prefix + suffix);
    throw;
  }
  state.bytes_done = state.bytes_total;
  state.run_together = info.end_of_text < 0 && info.documents > 1;
  report(true);
  return info;
}

std::string cached_token_file(Env& env, const Tokenizer& tokenizer, const std::string& path,
                              const std::string& cache_folder, const TokenizeOptions& options) {
  const std::vector<SourceFile> files = list_sources(env, path).files;
  Hash128 hash;
  hash.update("token file 3\n" + tokenizer_hash(tokenizer) + "\n" +
              (options.instructions ? options.instructions->identity() : options.text_key) + "\n" +
              (options.fim != nullptr ? options.fim->identity() + "\n" : "") +
              content_key(env, files, cache_folder));
  const std::string stem = std::filesystem::path(path).lexically_normal().filename().string();
  const std::string name = (stem.empty() ? "text" : stem.substr(0, 64)) + "-" + hash.hex();
  std::string prefix = join_path(cache_folder, name);
  if (is_complete(env, prefix)) return prefix;

  env.create_folders(cache_folder);
  const FileLock lock(
      prefix + ".lock",
      [&] {
        TokenizeState state;
        state.source = path;
        state.waiting = true;
        if (options.progress) options.progress(state);
      },
      options.stop);
  if (is_complete(env, prefix)) return prefix;
  // What a killed process left; nobody else writes these names while the lock is held.
  for (const std::string& entry : env.list(cache_folder))
    if (entry.starts_with(name + ".") && entry.find(".tmp") != std::string::npos)
      env.remove_all(join_path(cache_folder, entry));
  build_token_file(env, tokenizer, {path}, prefix, options);
  return prefix;
}

}  // namespace athanor::data
