// Token files in Megatron-LM's layout: PREFIX.bin holds the ids, PREFIX.idx says where documents begin.
//
//   IndexedWriter writer(system_env(), "data/en", tokenizer.vocab_size());
//   writer.add_document(ids);
//   writer.finish();                               // only now do data/en.bin and data/en.idx exist
//
//   const IndexedDataset dataset("data/en");       // memory-mapped
//   std::vector<int32_t> ids(1025);
//   dataset.read(first_token, ids);                // any range of the stream of all documents
//
// PREFIX.idx, little-endian: "MMIDIDX\0\0" · u64 version 1 · u8 type · u64 S sequences · u64 D boundaries ·
// S x i32 lengths · S x i64 byte pointers · D x i64 document boundaries (first 0, last S) · [S x i8 modes].
// PREFIX.text_bytes is our own format, written if the writer was given the bytes of every document: "ATHBYTES" ·
// u64 D documents · u64 tokens in all · D x i64 bytes of each document's text.
// PREFIX.loss_mask (loss_mask.h) says which tokens count in the loss; without it all do.
// PREFIX.sources (provenance/document_sources.h) says where each document came from, if the writer was told.
// The writer stores a document as one sequence, ids as u16 if the vocabulary is below 65500, otherwise as i32. The
// reader takes every integer type; the sizes in the files must match each other exactly.
//
// Thread rule: a writer belongs to one thread; many threads may read a dataset.
// Errors: Error for a bad file, naming the file, what was got and what was expected; every offset is checked against
// the files' sizes before it is used. IoError for failures of the disk. A writer that does not reach finish() leaves no
// files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/data/building/number_file.h"
#include "athanor/data/loss_mask.h"
#include "athanor/data/provenance/document_sources.h"

namespace athanor::data {

enum class TokenType : uint8_t { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, u16 = 8 };
const char* token_type_name(TokenType type);
int64_t token_size_bytes(TokenType type);
TokenType token_type_for(int64_t vocab_size);  // as in Megatron-LM: u16 below 65500, otherwise i32

// "data/en.bin", "data/en.idx" and "data/en" all name the prefix "data/en".
std::string token_file_prefix(const std::string& path);

class IndexedDataset;

class IndexedWriter {
 public:
  // temporary: begin of the names of its temporary files, on the same file system; empty: the prefix.
  IndexedWriter(Env& env, const std::string& prefix, int64_t vocab_size, const std::string& temporary = "");
  ~IndexedWriter();
  IndexedWriter(const IndexedWriter&) = delete;
  IndexedWriter& operator=(const IndexedWriter&) = delete;

  // Error for an id outside [0, vocab_size). text_bytes: the bytes of the text that the ids stand for, if known.
  // loss_mask: for each token 1 if it counts in the loss as a target, otherwise 0; empty: all count.
  void add_document(std::span<const int32_t> ids, std::optional<int64_t> text_bytes = std::nullopt,
                    std::span<const uint8_t> loss_mask = {}, const DocumentSource* source = nullptr);
  // All documents of a token file of the same type, with what is known of them; its ids are not looked at again.
  void add_documents(const IndexedDataset& part);
  // The prefix of the first part that was added without PREFIX.sources, for which the result has none; empty: of no part.
  const std::string& untraced_part() const { return untraced_part_; }
  // Syncs all files under temporary names: what lies at the prefix is still what was there. No more documents.
  void sync();
  std::string full_hash() const;  // after sync(): what IndexedDataset::full_hash() will be
  // sync() if there was none, then renames .bin, .text_bytes, .loss_mask and .sources, and .idx last.
  void finish();

  int64_t num_documents() const { return lengths_.count(); }
  int64_t num_tokens() const { return num_tokens_; }

 private:
  std::string temporary_of(const char* suffix) const { return temporary_ + suffix + temporary_end_; }
  void write_index();
  void write_text_bytes();

  Env& env_;
  std::string prefix_, temporary_, temporary_end_;
  int64_t vocab_size_;
  TokenType type_;
  std::unique_ptr<WritableFile> bin_;
  NumberFile lengths_;
  NumberFile text_bytes_;         // of each document, as long as every document came with its bytes
  std::vector<uint16_t> narrow_;  // buffer: a document's ids as u16
  LossMaskWriter mask_;
  SourcesWriter sources_;  // likewise as long as every document came with its source
  std::string untraced_part_;
  int64_t num_tokens_ = 0;
  bool has_text_bytes_ = false, has_loss_mask_ = false, has_sources_ = false;
  bool synced_ = false, finished_ = false;
};

class IndexedDataset {
 public:
  explicit IndexedDataset(const std::string& path);  // a prefix, or either of the two files

  const std::string& prefix() const { return prefix_; }
  TokenType type() const { return type_; }
  int64_t num_tokens() const { return num_tokens_; }
  int64_t num_sequences() const { return num_sequences_; }
  int64_t num_documents() const { return num_boundaries_ - 1; }
  uint64_t idx_bytes() const { return idx_.size_bytes(); }
  uint64_t bin_bytes() const { return bin_.size_bytes(); }
  const MappedFile& bin() const { return bin_; }  // the ids as they are stored

  // The ids of tokens first, first + 1, ... Error for a range outside the stream or an id that int32 cannot hold. The
  // caller checks for negative ids and ids outside its vocabulary.
  void read(int64_t first, std::span<int32_t> out) const;
  // The token where document d begins, for d in [0, num_documents()]; the last one is num_tokens().
  int64_t document_start(int64_t document) const;
  // Where the documents begin that have a token before `end`, in their order, and `end`.
  std::vector<int64_t> document_starts_before(int64_t end) const;
  int64_t document_of(int64_t token) const;  // the last document that begins at or before the token
  // Bytes of the text of document d; none without PREFIX.text_bytes.
  std::optional<int64_t> text_bytes_of(int64_t document) const;
  // Of tokens first, first + 1, ...: 1 where the token counts in the loss. Without PREFIX.loss_mask all do.
  void read_loss_mask(int64_t first, std::span<uint8_t> out) const;
  bool has_loss_mask() const { return loss_mask_ != nullptr; }
  const LossMask* loss_mask() const { return loss_mask_.get(); }
  // Where the documents came from; null without PREFIX.sources.
  std::unique_ptr<const DocumentSources> open_sources() const;

  // Hash of the whole index and of blocks spread over the ids and the loss mask: cheap, and notices an exchanged file.
  std::string quick_hash() const;
  // Hash of every byte of .bin, .idx and .loss_mask.
  std::string full_hash() const;
  // Error naming the first token whose id is not in [0, vocab_size).
  void check_ids(int64_t vocab_size) const;

 private:
  void check_index(const std::string& name);
  void open_text_bytes();

  std::string prefix_;
  MappedFile idx_, bin_;
  std::unique_ptr<MappedFile> text_bytes_;  // null where there is none
  std::unique_ptr<LossMask> loss_mask_;     // null where all tokens count
  TokenType type_ = TokenType::i32;
  int64_t num_sequences_ = 0, num_boundaries_ = 0, num_tokens_ = 0;
  const std::byte* lengths_ = nullptr;
  const std::byte* pointers_ = nullptr;
  const std::byte* boundaries_ = nullptr;
};

}  // namespace athanor::data
