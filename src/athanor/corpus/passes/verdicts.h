// What becomes of each document: kept, or dropped by a rule of a stage.
//
//   Verdicts verdicts(parts.documents);
//   decide_rules(env, config, parts, annotated, stage, verdicts);           // a stage of its own
//   decide_copies(groups, stage, verdicts);                                  // a deduplication of documents
//   verdicts.reason(document) -> "gopher.words"
//
// Stages decide in the order of the file: what one drops, later ones do not count. Four bytes a document for its size, two
// for its verdict, and eight while copies are decided are held in memory. Thread rule: plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/corpus/corpus_config.h"
#include "athanor/corpus/passes/annotate_pass.h"
#include "athanor/corpus/passes/group_pass.h"
#include "athanor/corpus/passes/parts.h"

namespace athanor::corpus::passes {

struct Reason {
  size_t stage = 0;
  std::string name;  // of the rule; "dedup.minhash"
};

class Verdicts {
 public:
  static constexpr uint16_t kKept = 0;
  explicit Verdicts(uint64_t documents) : verdicts_(documents, kKept), bytes_(documents, 0) {}

  uint64_t documents() const { return verdicts_.size(); }
  bool kept(uint64_t document) const { return verdicts_[document] == kKept; }
  uint64_t text_bytes(uint64_t document) const { return bytes_[document]; }
  const Reason& reason(uint64_t document) const { return reasons_[verdicts_[document] - size_t{1}]; }
  const std::vector<Reason>& reasons() const { return reasons_; }

  uint16_t code_of(size_t stage, const std::string& name);  // of a reason, made if it is new
  void drop(uint64_t document, uint16_t code) { verdicts_[document] = code; }
  void set_bytes(uint64_t document, uint64_t bytes) { bytes_[document] = static_cast<uint32_t>(bytes); }
  uint16_t code(uint64_t document) const { return verdicts_[document]; }

 private:
  std::vector<uint16_t> verdicts_;
  std::vector<uint32_t> bytes_;
  std::vector<Reason> reasons_;
};

// The rules of stages [begin, end) of an annotated segment, which are not deduplications.
void decide_rules(Env& env, const CorpusConfig& config, const Parts& parts, const Annotated& annotated,
                  size_t begin, size_t end, Verdicts& verdicts);
// Of documents joined by groups, over any number of steps, the one with the least number is kept.
void decide_copies(Env& env, const CorpusConfig& config, const Groups& groups, Verdicts& verdicts);
// The parts of texts that an earlier kept document has, in the order of documents and bytes.
std::vector<Cut> decide_cuts(Env& env, const Groups& groups, const Verdicts& verdicts);

}  // namespace athanor::corpus::passes
