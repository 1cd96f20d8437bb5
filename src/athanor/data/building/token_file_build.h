// One process's share in making a token file from text: all of it, if no other is at it.
//
//   const TokenFileInfo info = TokenFileBuild(env, tokenizer, {"text/en"}, "data/en", options).run();
//
// Text of at most options.part_bytes (as stored) is encoded straight into the result. More is made in parts, kept in
// PREFIX.build (build_folder.h): documents that follow one another, some part_bytes of text. Which documents are in a
// part follows from the files alone. A process reads the files in order and makes the parts that are neither done nor
// being made; it begins with groups of files that no other reads, and helps with the rest. Reading text is ten times
// faster than encoding it, so parts that others make are read over. When all parts are there, one process puts them
// together; every byte is as if they had never been apart.
//
// Thread rule: one thread. Errors: those of tokenize.h.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "athanor/data/building/build_folder.h"
#include "athanor/data/building/document_encoder.h"
#include "athanor/data/building/input_files.h"

namespace athanor::data::building {

class TokenFileBuild {
 public:
  TokenFileBuild(Env& env, const Tokenizer& tokenizer, const std::vector<std::string>& paths,
                 const std::string& prefix, const TokenizeOptions& options);
  TokenFileInfo run();

 private:
  // Where the reading of a group stands.
  struct Walk {
    int64_t group = 0, part = 0;
    uint64_t part_bytes = 0;              // of text so far
    std::unique_ptr<FileLock> lock = {};  // with writer: of the part at hand, which this process makes
    std::unique_ptr<IndexedWriter> writer = {};
  };
  struct Pending {
    int64_t group = 0, part = 0;
  };

  bool is_one_part() const;
  std::string key() const;
  ReadReport read_group(const FileGroup& group, const DocumentCallback& take);
  void make_parts();
  void walk_group(int64_t group, bool helps);
  void begin_part(Walk& walk) const;
  void end_part(Walk& walk);
  std::optional<GroupRecord> record_of(int64_t group) const;
  std::optional<Pending> first_missing(int64_t group) const;
  bool has_free_part(int64_t group) const;
  TokenFileInfo publish(const BuildFolder& folder, IndexedWriter& writer);
  TokenFileInfo encode_whole();
  TokenFileInfo put_together();
  TokenFileInfo info_of_all(const std::map<int64_t, GroupRecord>& groups) const;
  void report(bool finished);

  Env& env_;
  const Tokenizer& tokenizer_;
  const std::vector<std::string>& paths_;
  const std::string prefix_;
  const TokenizeOptions& options_;
  InputFiles input_;
  ReadOptions how_;
  DocumentEncoder encoder_;
  std::optional<BuildFolder> folder_;
  std::map<int64_t, GroupRecord> read_;  // groups that this process has read to their end
  const IndexedWriter* writing_ = nullptr;
  TokenizeState state_;
  int64_t documents_made_ = 0, tokens_made_ = 0;  // in parts that are done, by this process
};

}  // namespace athanor::data::building

namespace athanor {
using athanor::data::building::TokenFileBuild;
}  // namespace athanor
