// The settings of a corpus build, read from strict TOML: [corpus], [[input]] and [[stage]].
//
//   const CorpusConfig config = load_corpus(env, "corpus.toml");
//   config.stages[0].stage->annotate(document, scores);
//
// Stages stand in the order of the file. `channels` limits one to documents of these channels; `rules` changes what its
// rules demand: rules = {"gopher.words" = [50, 1000], "gopher.stop_words" = false}. Relative paths start at the folder of
// the file. Errors: ConfigError naming the file, the line, what was got and what was expected. Thread rule: plain data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/corpus/dedup/key_method.h"
#include "athanor/corpus/stage.h"

namespace athanor::corpus {

struct InputConfig {
  std::string channel;
  std::string path;             // a file, a folder, a glob, or "-"
  std::string format = "auto";  // text, jsonl, csv, wet
  std::string text = "text";    // a key, a.b, or a template "{title}\n{body}"
  std::string id = "id";
  std::vector<std::string> separators = {"<|endoftext|>"};  // lines of plain text between documents
};

// One of [[stage]]. A deduplication has keys; if it cuts out parts of texts it has a stage, too, that looks at what is left.
struct StageConfig {
  std::string kind;
  std::vector<std::string> channels = {};  // empty: all
  std::string settings = {};               // its table as TOML, rules apart: what its scores depend on
  std::shared_ptr<const Stage> stage = {};
  std::shared_ptr<const KeyMethod> keys = {};
  std::vector<std::string> against = {};  // of a deduplication: paths of an earlier corpus
  int64_t substring_bytes = 0;            // of a deduplication of substrings, which has no keys: the shortest
  std::vector<Rule> rules = {};           // of the stage, as the file changes them
  std::string copies = {};                // of a deduplication: its name as a reason, "dedup.minhash"

  bool takes(const std::string& channel) const;
  bool is_dedup() const { return !copies.empty(); }
  bool cuts() const { return is_dedup() && stage != nullptr; }  // parts out of texts
  const std::string& name() const { return copies.empty() ? kind : copies; }
};

struct CorpusConfig {
  std::string name;
  std::string output = "corpora";           // the corpus is OUTPUT/NAME
  int64_t workers = 0;                      // processes; 0: as many as processors
  int64_t memory = int64_t{2} << 30;        // bytes, of the whole job
  int64_t shard_size = int64_t{256} << 20;  // bytes of text in a shard
  int64_t max_document = 0;                 // bytes; 0: what a worker's share of the memory allows
  std::vector<InputConfig> inputs = {};
  std::vector<StageConfig> stages = {};
  std::string text = {};  // of the file

  std::string folder() const { return output + "/" + name; }
};

CorpusConfig load_corpus(Env& env, const std::string& path);
CorpusConfig parse_corpus(const std::string& text, const std::string& file, const std::string& folder);

}  // namespace athanor::corpus
