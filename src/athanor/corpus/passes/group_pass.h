// The pass that brings equal keys of a deduplication together.
//
//   const Groups groups = group_keys(env, config, stage, parts, annotated, work, progress);
//   groups.for_each(env, [&](const KeyRecord& record) { pairs.add(record); });    // dedup/duplicate_pairs.h
//
// Keys are compared of all documents, also of those that rules drop; so another threshold needs no new comparison. A task
// is an eighth of the range of keys, sorted within a worker's share of the memory. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "athanor/corpus/corpus_config.h"
#include "athanor/corpus/dedup/record.h"
#include "athanor/corpus/passes/annotate_pass.h"
#include "athanor/corpus/passes/parts.h"
#include "athanor/corpus/passes/progress.h"
#include "athanor/corpus/passes/work_folder.h"

namespace athanor::corpus::passes {

struct Groups {
  size_t stage = 0;
  std::string key;
  std::vector<std::string> files = {};

  // In the order of keys, documents and bytes: a key of two records or more.
  void for_each(Env& env, const std::function<void(const KeyRecord& record)>& take) const;
};

Groups group_keys(Env& env, const CorpusConfig& config, size_t stage, const Parts& parts,
                  const Annotated& annotated, WorkFolder& work, const Progress& progress);

}  // namespace athanor::corpus::passes
