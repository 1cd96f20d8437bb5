// What is expected to be faster, by rule, where nothing was tried (launch.tune = "propose"): processors that idle, then passes of
// few tokens.
//
//   const Proposal proposal = propose_setting({.tokens_of_sequence = 64, .bigger = {{2, 9000}, {4, 17000}}});
//   if (!proposal.setting.empty()) say(proposal.setting + ": " + proposal.why);
//
// A pass of fewer than kTokensOfPass tokens spends much of its time on reading weights and on starting kernels; beyond it
// another size gains little. Of the sizes that fit, the smallest that has them is proposed, else the largest. Thread rule: pure
// functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::run::tuning {

constexpr int64_t kTokensOfPass = 1000;

struct SizeThatFits {
  int64_t micro_batch_size = 1;
  uint64_t needed_bytes = 0;  // on a rank
};

struct ProposalFacts {
  int64_t micro_batch_size = 1, tokens_of_sequence = 1;  // on a rank
  std::vector<SizeThatFits> bigger = {};                 // ascending
  int64_t threads = 1, most_threads = 1;                 // of a rank; its share of the processors
};

struct Proposal {
  std::string setting = {};  // "train.micro_batch_size=16"; "": none
  std::string why = {};
};
Proposal propose_setting(const ProposalFacts& facts);

}  // namespace athanor::run::tuning
