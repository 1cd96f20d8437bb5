// Sharding as data beside a model that sees one device: a table of which modules are cut over the ranks of
// axis tp, and what happens at their boundaries.
//
//   const Sharding table = {
//       {.module = "blocks.*.attn", .input = copy_to},
//       {.module = "blocks.*.attn.q", .split = Split::column, .unit = head_dim},
//       {.module = "blocks.*.attn.o", .split = Split::row, .output = reduce_from},
//   };
//   apply_sharding(model, table, tp_group);        // between declaring the model and allocating it
//
// '*' stands for one part of a module's path. A module that no row names is computed alike on every rank.
// Parameters get their Shard (autograd/param.h), modules their hooks; a group of one changes nothing. Errors:
// Error naming the module and the lengths where something does not divide, a row that names no module, a
// module that two rows name. Thread rule: one thread per model.
#pragma once

#include <string>
#include <vector>

#include "athanor/comm/group.h"
#include "athanor/nn/module.h"

namespace athanor {

enum class Split {
  none,
  column,  // weight [O,I] and bias [O] by outputs, `unit` of them staying together (the channels of a head)
  grouped,  // the same; where there are fewer units than ranks, neighbours share one (heads of keys and values)
  row,      // weight [O,I] by inputs; the bias is whole and the first rank adds it
  vocabulary,  // weight [V,C] by rows; the last parts may be padded
  first,       // whole; the first rank alone computes with it (positions)
  tokens,      // whole; each rank computes with its part of the tokens (norms and dropout under sp, routers)
};

using Boundary = Var (*)(const Var&,
                         Group&);  // a collective of parallel/collective_ops.h; null: the identity

struct ShardingRow {
  std::string module = {};
  Split split = Split::none;
  int64_t unit = 1;
  Boundary input = nullptr, output = nullptr;
};
using Sharding = std::vector<ShardingRow>;

// `group` outlives the model.
void apply_sharding(Module& model, const Sharding& sharding, Group& group);

}  // namespace athanor
