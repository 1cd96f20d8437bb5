#include "athanor/run/tuning/proposal.h"

#include <fmt/format.h>

namespace athanor::run::tuning {

Proposal propose_setting(const ProposalFacts& facts) {
  if (facts.threads < facts.most_threads)
    return {.setting = fmt::format("train.threads={}", facts.most_threads),
            .why = fmt::format("a rank computes with {} of the {} processors that are its share",
                               facts.threads, facts.most_threads)};
  const int64_t tokens = facts.micro_batch_size * facts.tokens_of_sequence;
  if (tokens >= kTokensOfPass)
    return {.why = fmt::format("a pass of a rank has {} tokens, and it uses its processors", tokens)};
  const SizeThatFits* best = nullptr;
  for (const SizeThatFits& size : facts.bigger) {
    best = &size;
    if (size.micro_batch_size * facts.tokens_of_sequence >= kTokensOfPass) break;
  }
  if (best == nullptr)
    return {.why = fmt::format("a pass of a rank has {} tokens, and no larger micro-batch fits", tokens)};
  return {.setting = fmt::format("train.micro_batch_size={}", best->micro_batch_size),
          .why = fmt::format(
              "a pass of a rank has {} tokens, and with less than {} much of it is overhead; a "
              "pass of {} needs {} bytes on a rank",
              tokens, kTokensOfPass, best->micro_batch_size * facts.tokens_of_sequence, best->needed_bytes)};
}

}  // namespace athanor::run::tuning
