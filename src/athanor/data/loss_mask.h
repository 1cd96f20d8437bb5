// Which tokens of a token file count in the loss, one bit a token: PREFIX.loss_mask beside PREFIX.bin and PREFIX.idx.
//
//   LossMaskWriter writer(env, "data/chat.loss_mask.tmp");
//   writer.add(7, {});                              // seven tokens that all count
//   writer.add(3, std::vector<uint8_t>{0, 1, 1});
//   writer.finish();                                // writes a file if some token does not count
//
//   const LossMask mask("data/chat.loss_mask", /*num_tokens=*/10);
//   std::vector<uint8_t> counts(4);
//   mask.read(6, counts);                           // 1 0 1 1
//
// The file, little-endian: "ATHLMASK" · ceil(n / 64) x u64, token i at bit i mod 64 of word i / 64, unused bits 0 ·
// u64 n tokens · u64 how many of them count. The counts come last, so that the file is written in one pass and a token
// file of any size needs no memory for it. A token file whose tokens all count has none.
//
// Thread rule: a writer belongs to one thread; many threads may read a mask.
// Errors: Error naming the file for one that does not belong to that many tokens; IoError for failures of the disk.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "athanor/base/file.h"
#include "athanor/base/namespaces.h"

namespace athanor::data {

class LossMaskWriter {
 public:
  LossMaskWriter(Env& env, std::string path) : env_(env), path_(std::move(path)) {}
  // mask: of `count` values 0 or 1, or empty if all tokens count.
  void add(int64_t count, std::span<const uint8_t> mask);
  // Syncs and closes the file; false where all tokens count, and there is none.
  bool finish();
  const std::string& path() const { return path_; }

 private:
  void start();
  void add_ones(int64_t count);
  void add_bit(uint64_t bit);
  void flush();

  Env& env_;
  std::string path_;
  std::unique_ptr<WritableFile> file_;  // null until a token does not count
  std::string buffer_;
  uint64_t word_ = 0;
  int64_t tokens_ = 0, counted_ = 0;
};

class LossMask {
 public:
  LossMask(const std::string& path, int64_t num_tokens);
  // Of tokens first, first + 1, ...: 1 where the token counts.
  void read(int64_t first, std::span<uint8_t> out) const;
  int64_t num_counted() const { return num_counted_; }  // as the file says
  void check_count() const;                             // Error if the bits are others
  const MappedFile& file() const { return file_; }

 private:
  uint64_t word(int64_t index) const;

  std::string path_;
  MappedFile file_;
  int64_t num_tokens_, num_counted_ = 0;
};

}  // namespace athanor::data
