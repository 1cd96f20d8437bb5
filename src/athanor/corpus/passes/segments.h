// The stages of a build in segments. What a segment says of its documents needs no other document; its deduplication looks
// at all of them, and where that cuts out parts of texts, the next segment begins with the texts that are left.
//
//   for (const Segment& segment : segments_of(config)) ...   // stages 0..2 (dedup paragraph); 3, 4
//
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "athanor/corpus/corpus_config.h"

namespace athanor::corpus::passes {

struct Segment {
  size_t begin = 0, end = 0;  // stages of the config
  bool cuts = false;          // its last stage cuts out parts of texts
  int64_t cut_by = -1;        // the stage before it that did; -1: none
};

std::vector<Segment> segments_of(const CorpusConfig& config);

// Where the scores of a segment's stages stand in a row: column 0 is the bytes of the text once the segment has changed
// it, then come those of what an earlier stage left of a text that it has cut, then each stage's in order.
struct ScoreColumns {
  std::vector<size_t> first = {};  // by stage of the config, from segment.begin on
  size_t count = 1;
};
ScoreColumns columns_of(const CorpusConfig& config, const Segment& segment);

// Whether no rule of the segment drops a document with this row of scores.
bool rules_keep(const CorpusConfig& config, const Segment& segment, const ScoreColumns& columns,
                std::span<const double> row);

}  // namespace athanor::corpus::passes
