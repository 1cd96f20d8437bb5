// The pass that finds passages of kept documents that occur before, wherever they begin (dedup/substrings.h).
//
//   const std::vector<Cut> cuts = cut_substrings(env, config, stage, parts, annotated, key, verdicts, work, progress);
//
// Texts are looked at in blocks that fit into a worker's share of the memory, an earlier block with a later one in each
// task; what is found does not depend on the blocks. The work grows with the square of their number. `key` stands for
// all that the kept documents depend on. Thread rule: one thread.
#pragma once

#include <string>
#include <vector>

#include "athanor/corpus/corpus_config.h"
#include "athanor/corpus/passes/annotate_pass.h"
#include "athanor/corpus/passes/parts.h"
#include "athanor/corpus/passes/progress.h"
#include "athanor/corpus/passes/verdicts.h"
#include "athanor/corpus/passes/work_folder.h"

namespace athanor::corpus::passes {

// In the order of documents.
std::vector<Cut> cut_substrings(Env& env, const CorpusConfig& config, size_t stage, const Parts& parts,
                                const Annotated& annotated, const std::string& key, const Verdicts& verdicts,
                                WorkFolder& work, const Progress& progress);

}  // namespace athanor::corpus::passes
