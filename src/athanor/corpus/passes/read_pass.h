// The first pass: the files of the inputs become parts (parts.h).
//
//   const Parts parts = read_inputs(env, config, standard_input, work, progress).parts;
//
// A task is a file, or some small ones. What is no document (broken JSON, bytes that are not UTF-8, too long ...) is counted by reason, with
// the first places. Thread rule: one thread; tasks run in run_tasks(). Errors: those of documents/.
#pragma once

#include "athanor/corpus/corpus_config.h"
#include "athanor/corpus/passes/parts.h"
#include "athanor/corpus/passes/progress.h"
#include "athanor/corpus/passes/spool.h"
#include "athanor/corpus/passes/work_folder.h"

namespace athanor::corpus::passes {

struct ReadInputs {
  Parts parts;
  PassFolder folder;
  std::string key;
};

ReadInputs read_inputs(Env& env, const CorpusConfig& config, const OpenStandardInput& standard_input,
                       WorkFolder& work, const Progress& progress);

}  // namespace athanor::corpus::passes
