// The pass of a segment: its stages look at every document, also at those that an earlier rule drops, and the keys of its
// deduplications are noted.
//
//   const Annotated annotated = annotate(env, config, segment, before, work, progress);
//   const std::vector<double> rows = read_scores(env, annotated.scores(part), columns.count);
//
// Of part P it makes P.scores.zst (rows of doubles: segments.h says which column is what), P.keys-S.zst for deduplication
// S, and P.jsonl.zst if a text has changed. The same bytes whatever the workers. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "athanor/corpus/corpus_config.h"
#include "athanor/corpus/dedup/cut.h"
#include "athanor/corpus/passes/parts.h"
#include "athanor/corpus/passes/progress.h"
#include "athanor/corpus/passes/segments.h"
#include "athanor/corpus/passes/work_folder.h"

namespace athanor::corpus::passes {

// A part of the text of a document, which a deduplication cuts out.
struct Cut {
  uint64_t document = 0;
  TextRange range = {};
  bool operator<(const Cut& other) const {
    return document != other.document ? document < other.document : range < other.range;
  }
};

// Files of keys number documents from 1; 0 stands for all documents of an earlier corpus, so that these come first.
constexpr uint64_t kFirstKeyNumber = 1;

class Verdicts;

// What a segment begins with.
struct Texts {
  std::string key;                                    // of all that made them
  std::vector<std::string> files;                     // by part
  std::shared_ptr<const std::vector<Cut>> cuts = {};  // sorted; to be made first
  const Verdicts* verdicts = nullptr;  // of the segments before, for progress; null: all are kept
};

struct Annotated {
  std::string key;
  PassFolder folder;
  Segment segment;
  ScoreColumns columns;
  std::vector<std::string> texts;  // by part: after the segment

  std::string scores(const Part& part) const { return folder.file(part.name + ".scores.zst"); }
  std::string keys(const Part& part, size_t stage) const {
    return folder.file(part.name + ".keys-" + std::to_string(stage) + ".zst");
  }
};

Annotated annotate(Env& env, const CorpusConfig& config, const Segment& segment, const Parts& parts,
                   const Texts& texts, WorkFolder& work, const Progress& progress);

std::vector<double> read_scores(Env& env, const std::string& path, size_t columns);

}  // namespace athanor::corpus::passes
