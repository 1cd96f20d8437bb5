// What a build may take of this machine.
//
//   const int workers = num_workers(config);                  // processes
//   const uint64_t bytes = worker_bytes(config);              // of memory, each
//
// Thread rule: pure functions of the config and the machine.
#pragma once

#include <cstdint>

#include "athanor/corpus/corpus_config.h"

namespace athanor::corpus::passes {

// As many as are asked for, or as the memory allows for the longest documents.
int num_workers(const CorpusConfig& config);
uint64_t worker_bytes(const CorpusConfig& config);
// The longest document. It depends on the memory alone, so that the corpus does not depend on the workers.
uint64_t max_document_bytes(const CorpusConfig& config);

}  // namespace athanor::corpus::passes
