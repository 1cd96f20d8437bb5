// Builds a corpus: raw text to clean text, as a corpus file says.
//
//   const CorpusConfig config = load_corpus(env, "corpus.toml");
//   const Built built = build_corpus(env, config);
//   env.write_atomically(config.folder() + "/report.json", report_json(report_of(env, config, built)));
//
// Read, annotate, compare, decide, write: each pass is done by several processes, a part of the input at a time, and is
// found done by the next build of the same name, whatever ended this one. Only what a changed setting touches is done
// again: another threshold, for one, needs no look at any text.
//
// Thread rule: the process has one thread. Errors: those of the passes; Error where another process builds the corpus.
#pragma once

#include <vector>

#include "athanor/corpus/passes/annotate_pass.h"
#include "athanor/corpus/passes/progress.h"
#include "athanor/corpus/passes/spool.h"
#include "athanor/corpus/passes/verdicts.h"
#include "athanor/corpus/passes/write_pass.h"

namespace athanor::corpus::passes {

struct Built {
  Parts parts;
  std::vector<Annotated> segments;
  Verdicts verdicts;
  std::vector<Shard> shards;
  double seconds = 0;
};

struct BuildOptions {
  // Only what needs no look at a text: Error where a stage has not seen all documents.
  bool only_decide = false;
  Progress progress = [](const PassProgress&) {};
  OpenStandardInput standard_input = {};  // of an input "-"; none: what the last build has read (spool.h)
};

Built build_corpus(Env& env, const CorpusConfig& config, const BuildOptions& options = {});

}  // namespace athanor::corpus::passes
