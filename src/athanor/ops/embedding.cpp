#include "athanor/autograd/apply.h"
#include "athanor/kernels/table.h"
#include "athanor/ops/ops.h"

namespace athanor {
namespace {

// y[b,s] = table[ids[b,s]] + positions[first + s]
// backward: dtable[ids[b,s]] += dy[b,s],  dpositions[first + s] += sum_b dy[b,s]
struct Embedding {
  struct Saved {
    Tensor ids;
    Weight* table;
    Weight* positions;
    int64_t first_position;
  };

  static Tensor forward(Saved& saved, const PassContext&, const Tensor& ids, Weight& table, Weight* positions,
                        int64_t first_position) {
    const Tensor& rows = table.value();
    check(ids.shape().dims() == 2, "embedding: ids {} must be [batch, tokens]", ids.shape());
    Tensor y =
        empty(rows.arena(), {ids.dim(0), ids.dim(1), rows.dim(1)}, rows.dtype(), Category::activations);
    kernels(rows).embedding.forward(rows.queue(), y, ids, rows,
                                    positions == nullptr ? nullptr : &positions->value(), first_position);
    saved = {ids, &table, positions, first_position};
    return y;
  }
  static std::array<Tensor, 0> backward_input(const Saved&, const Tensor&) { return {}; }
  static void backward_weight(const Saved& saved, const Tensor& dy) {
    kernels(dy).embedding.backward(dy.queue(), saved.table->grad_rows(saved.ids), dy, saved.ids);
    if (saved.positions != nullptr)
      kernels(dy).embedding.backward_positions(dy.queue(), saved.positions->grad(), dy, saved.first_position);
  }
};

}  // namespace

Var embedding(Tape& tape, const Tensor& ids, Weight& table, Weight* positions, int64_t first_position) {
  return apply<Embedding>(tape, ids, table, positions, first_position);
}

}  // namespace athanor
