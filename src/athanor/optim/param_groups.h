// Parameter groups: parameters whose names match a pattern have a learning rate and a weight decay of their own.
//
//   const std::vector<ParamGroup> groups = {{.match = "embed.*", .lr_ratio = 0.1}, {.match = "*.bias", .weight_decay = 0.0}};
//   check_groups(groups, {"embed.weight", "blocks.0.attn.q.bias"});
//   const ParamGroup* group = group_of(groups, "embed.weight");   // the first that matches; null: none
//
// In a pattern * is any text, dots included, ? any character, all else itself; it must match the whole name. Thread
// rule: plain data and pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::optim {

struct ParamGroup {
  std::string match;
  double lr_ratio = 1.0;  // of the schedule's rate
  // Of all parameters that match, vectors too; none: OptimizerOptions::weight_decay, of matrices.
  std::optional<double> weight_decay = {};
};

bool matches(std::string_view pattern, std::string_view name);
const ParamGroup* group_of(const std::vector<ParamGroup>& groups, std::string_view name);

// ConfigError naming the first group that no parameter belongs to, with the names nearest to its pattern. `names`: of
// all trained parameters, those of other ranks included.
void check_groups(const std::vector<ParamGroup>& groups, const std::vector<std::string>& names);

}  // namespace athanor::optim
