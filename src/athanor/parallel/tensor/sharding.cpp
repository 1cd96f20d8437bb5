#include "athanor/parallel/tensor/sharding.h"

#include <string_view>

#include "athanor/parallel/tensor/overlapped_linear.h"

namespace athanor::parallel::tensor {
namespace {

constexpr const char* kAxis = "tp";

bool matches(std::string_view pattern, std::string_view path) {
  while (true) {
    const size_t pattern_end = pattern.find('.'), path_end = path.find('.');
    const std::string_view part = pattern.substr(0, pattern_end);
    if (part != "*" && part != path.substr(0, path_end)) return false;
    if (pattern_end == std::string_view::npos || path_end == std::string_view::npos)
      return pattern_end == path_end;
    pattern.remove_prefix(pattern_end + 1);
    path.remove_prefix(path_end + 1);
  }
}

Shard whole(const Group& group, bool partial) {
  return {.axis = kAxis, .copy = group.rank(), .copies = group.size(), .partial = partial};
}

// Partitions the outputs by units: each rank has several units, or (grouped) several ranks replicate each unit.
Shard columns(const ParamSpec& param, const ShardingRow& row, const Group& group) {
  const int64_t length = param.shape()[0], units = length / row.unit;
  const int ranks = group.size();
  check(units * row.unit == length, "sharding: '{}' {}: got {} outputs, expected a multiple of {}",
        param.name(), param.shape(), length, row.unit);
  if (units % ranks == 0) return {.dim = 0, .axis = kAxis, .rank = group.rank(), .size = ranks};
  check(row.split == Split::grouped && ranks % units == 0,
        "sharding: '{}' {}: got {} groups of {} rows for {} ranks, expected a number of ranks that divides "
        "them",
        param.name(), param.shape(), units, row.unit, ranks);
  const int size = static_cast<int>(units), copies = ranks / size;
  return {.dim = 0,
          .axis = kAxis,
          .rank = group.rank() / copies,
          .size = size,
          .copy = group.rank() % copies,
          .copies = copies,
          .partial = true};
}

Shard shard_of(const ParamSpec& param, const ShardingRow& row, const Group& group) {
  if (param.is_state()) return whole(group, false);  // a buffer has no gradient
  switch (row.split) {
    case Split::none:
      return whole(group, false);
    case Split::column:
    case Split::grouped:
      return columns(param, row, group);
    case Split::row:
      if (param.shape().dims() != 2) return whole(group, true);
      return {.dim = 1, .axis = kAxis, .rank = group.rank(), .size = group.size()};
    case Split::vocabulary:
      return {.dim = 0, .axis = kAxis, .rank = group.rank(), .size = group.size()};
    case Split::first:
    case Split::tokens:
      return whole(group, true);
  }
  fail("sharding: got an unknown split");
}

void walk(Module& module, const std::function<void(Module&)>& visit) {
  visit(module);
  for (Module* child : module.children()) walk(*child, visit);
}

Module::Hook hook(Boundary boundary, Group& group) {
  if (boundary == nullptr) return {};
  return [boundary, &group](const Var& x) { return boundary(x, group); };
}

}  // namespace

void apply_sharding(Module& model, const Sharding& sharding, Group& group) {
  std::vector<int> found(sharding.size(), 0);
  const ShardingRow none;
  walk(model, [&](Module& module) {
    const ShardingRow* row = &none;
    for (size_t i = 0; i < sharding.size(); ++i) {
      if (!matches(sharding[i].module, module.path())) continue;
      check(row == &none, "sharding: the module '{}' is named by '{}' and by '{}'", module.path(),
            row->module, sharding[i].module);
      row = &sharding[i];
      ++found[i];
    }
    if (group.size() == 1) return;
    for (Param* param : module.own_params()) param->shard(shard_of(*param, *row, group));
    module.set_hooks(hook(row->input, group), hook(row->output, group));
    if (auto* linear = dynamic_cast<Linear*>(&module)) linear->set_product(overlapped(row->output, group));
    if (row->split == Split::tokens) module.deal_tokens(group.rank(), group.size());
  });
  for (size_t i = 0; i < sharding.size(); ++i)
    check(found[i] > 0, "sharding: the model has no module '{}'", sharding[i].module);
}

}  // namespace athanor::parallel::tensor
