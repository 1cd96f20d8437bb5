// What a model's blocks forget in the forward pass and make again in the backward pass, as a value: the text of
// parallel.recompute.
//
//   none               nothing
//   selective          norms, activation functions and attention are made again from what is kept
//   full               only the input of each block is kept
//   group:K            only the input of each K-th block is kept; the K blocks are recomputed together
//   full*4,selective   the first four blocks, then all others; blocks that nothing is said about keep everything
//
// All of them compute the same bits. Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::config {

enum class Recompute : uint8_t { none, selective, full };

struct RecomputePart {
  Recompute policy = Recompute::none;
  int64_t group = 1;   // full: blocks that are recomputed together
  int64_t blocks = 0;  // consecutive ones this is for; 0 (the last part only): the rest
  friend bool operator==(const RecomputePart&, const RecomputePart&) = default;
};
using RecomputePlan = std::vector<RecomputePart>;  // from the first block on

std::optional<RecomputePlan> parse_recompute(std::string_view text);  // nothing: not such a text
std::string str(const RecomputePlan& plan);

}  // namespace athanor::config
