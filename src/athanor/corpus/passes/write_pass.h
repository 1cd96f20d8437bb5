// The last pass: the documents that are kept become the shards of their channels, each with the scores of its documents
// in a file of its own.
//
//   const std::vector<Shard> shards = write_shards(env, config, parts, segments, verdicts, work, progress);
//
//   OUTPUT/NAME/CHANNEL/shard-00000.jsonl.zst          a record a line (record.h), in the order of the inputs
//   OUTPUT/NAME/scores/CHANNEL/shard-00000.jsonl.zst   the same lines: {"id", "source", "attributes": {"gopher.words":
//                                                      [[0, 812, 137]]}}, of each score the characters that it is of, and it
//
// All shards are written beside, then each channel's folder takes the place of the old one. What shards there are depends
// on the documents alone. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/corpus/corpus_config.h"
#include "athanor/corpus/passes/annotate_pass.h"
#include "athanor/corpus/passes/parts.h"
#include "athanor/corpus/passes/progress.h"
#include "athanor/corpus/passes/verdicts.h"
#include "athanor/corpus/passes/work_folder.h"

namespace athanor::corpus::passes {

struct Shard {
  std::string channel, name;    // "shard-00000"
  uint64_t first = 0, end = 0;  // numbers of documents; those between that are kept, and of the channel
  uint64_t documents = 0, text_bytes = 0;
};

std::vector<Shard> write_shards(Env& env, const CorpusConfig& config, const Parts& parts,
                                const std::vector<Annotated>& segments, const Verdicts& verdicts,
                                WorkFolder& work, const Progress& progress);

}  // namespace athanor::corpus::passes
