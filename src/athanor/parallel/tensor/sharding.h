// Tensor-parallel sharding as data, beside a model that is written for one device: a table says which modules are
// partitioned over the ranks of axis tp, and which collectives run at their boundaries.
//
//   const Sharding table = {
//       {.module = "blocks.*.attn", .input = copy_to},
//       {.module = "blocks.*.attn.q", .split = Split::column, .unit = head_dim},
//       {.module = "blocks.*.attn.o", .split = Split::row, .output = reduce_from},
//   };
//   apply_sharding(model, table, tp_group);        // between declaring the model and allocating it
//
// '*' stands for one component of a module's path. A module that no row names is replicated.
// Parameters get their Shard (autograd/param.h), modules their hooks; a group of one changes nothing. Errors:
// Error naming the module and the lengths where something does not divide, a row that names no module, a
// module that two rows name. Thread rule: one thread per model.
#pragma once

#include <string>
#include <vector>

#include "athanor/comm/group.h"
#include "athanor/nn/module.h"

namespace athanor::parallel::tensor {

enum class Split {
  none,
  column,      // column parallel: weight [O,I], bias [O] by outputs, in units of `unit` (channels of a head)
  grouped,     // the same; with fewer units than ranks, several ranks replicate one (heads of keys in GQA)
  row,         // row parallel: weight [O,I] by inputs; the bias is replicated and the first rank adds it
  vocabulary,  // weight [V,C] by rows; the last shards may be padded
  first,       // replicated; only the first rank computes with it (positions)
  tokens,      // replicated; each rank computes its part of the tokens (norms, dropout with sp, routers)
};

// A collective of collective_ops.h; null: the identity.
using Boundary = Var (*)(const Var&, Group&);

struct ShardingRow {
  std::string module = {};
  Split split = Split::none;
  int64_t unit = 1;
  Boundary input = nullptr, output = nullptr;
};
using Sharding = std::vector<ShardingRow>;

// `group` outlives the model.
void apply_sharding(Module& model, const Sharding& sharding, Group& group);

}  // namespace athanor::parallel::tensor
