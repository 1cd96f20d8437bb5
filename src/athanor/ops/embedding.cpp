#include <vector>

#include "athanor/autograd/apply.h"
#include "athanor/autograd/sequence_part.h"
#include "athanor/kernels/table.h"
#include "athanor/ops/ops.h"

namespace athanor::ops {
namespace {

// y[b,s] = table[ids[b,s]] + positions[first + s] + kinds[kind_of[b,s]]
// backward: dtable[ids[b,s]] += dy[b,s],  dpositions[first + s] += sum_b dy[b,s],  dkinds[kind_of[b,s]] += dy[b,s]
// Where the table is partitioned by rows, y is partial: zero for ids of other ranks' rows. The first rank adds positions
// and kinds and has their gradients. With context parallelism s counts the tokens of the pass.
struct Embedding {
  struct Saved {
    Tensor ids, kind_of;
    Weight* table;
    Weight* positions;
    Weight* kinds;
    int64_t first_position;
    const SequencePart* part;
  };

  static Tensor forward(Saved& saved, const PassContext& context, const Tensor& ids, Weight& table,
                        Weight* positions, int64_t first_position, Weight* kinds, const Tensor& kind_of) {
    const Tensor& rows = table.value();
    check(ids.shape().dims() == 2, "embedding: ids {} must be [batch, tokens]", ids.shape());
    Tensor y =
        empty(rows.arena(), {ids.dim(0), ids.dim(1), rows.dim(1)}, rows.dtype(), Category::activations);
    const bool is_first = table.param().part(0).rank == 0;
    saved = {local_ids(ids, table.param()), kind_of,        &table,      is_first ? positions : nullptr,
             is_first ? kinds : nullptr,    first_position, context.part};
    if (saved.positions == nullptr) {
      kernels_of(rows).embedding.forward(rows.queue(), y, saved.ids, rows, nullptr, 0);
    } else {
      const bool is_whole = context.part == nullptr;
      const Tensor& all = positions->value();
      const Tensor here = is_whole ? all : rows_at(*context.part, all.slice(first_position, all.dim(0)));
      kernels_of(rows).embedding.forward(rows.queue(), y, saved.ids, rows, &here,
                                         is_whole ? first_position : 0);
    }
    if (saved.kinds == nullptr) return y;
    if (!saved.kind_of.defined())
      saved.kind_of = zeros(rows.arena(), ids.shape(), Dtype::i32, Category::activations);
    check(saved.kind_of.shape() == ids.shape(), "embedding: got kinds {} for ids {}, expected one each",
          saved.kind_of.shape(), ids.shape());
    Tensor of_kinds = empty_like(y, Category::workspace);
    kernels_of(rows).embedding.forward(rows.queue(), of_kinds, saved.kind_of, saved.kinds->value(), nullptr,
                                       0);
    kernels_of(rows).elementwise.add(rows.queue(), y, y, of_kinds);
    return y;
  }
  static Tensor local_ids(const Tensor& ids, const ParamSpec& table) {
    if (table.part(0).size == 1) return ids;
    Tensor local = empty_like(ids);
    if (ids.queue().device() == Device::null) return local;
    const int64_t vocab = table.whole_shape()[0], first = table.box().offset[0], rows = table.box().extent[0];
    std::vector<int32_t> all(static_cast<size_t>(ids.numel()));
    copy_to_host(all.data(), ids, ids.size_bytes());
    for (size_t n = 0; n < all.size(); ++n) {
      const int32_t id = all[n];
      check(id >= 0 && id < vocab, "embedding: id {} at position {}, expected 0 <= id < {}", id, n, vocab);
      all[n] = first <= id && id < first + rows ? static_cast<int32_t>(id - first) : kNoRow;
    }
    copy_from_host(local, all.data(), local.size_bytes());
    return local;
  }
  static std::array<Tensor, 0> backward_input(const Saved&, const Tensor&) { return {}; }
  static void backward_weight(const Saved& saved, const Tensor& dy) {
    kernels_of(dy).embedding.backward(dy.queue(), saved.table->grad_rows(saved.ids), dy, saved.ids);
    if (saved.kinds != nullptr)
      kernels_of(dy).embedding.backward(dy.queue(), saved.kinds->grad(), dy, saved.kind_of);
    if (saved.positions == nullptr) return;
    if (saved.part != nullptr) {
      Tensor& all = saved.positions->grad();
      Tensor gradient = all.slice(saved.first_position, all.dim(0));
      return add_to_positions(*saved.part, dy, gradient);
    }
    kernels_of(dy).embedding.backward_positions(dy.queue(), saved.positions->grad(), dy,
                                                saved.first_position);
  }
  static void add_to_positions(const SequencePart& part, const Tensor& dy, Tensor& gradient) {
    Tensor here = zeros(dy.arena(), {dy.dim(1), dy.dim(2)}, Dtype::f32, Category::workspace);
    kernels_of(dy).embedding.backward_positions(dy.queue(), here, dy, 0);
    walk_tokens(part, 0, here.dim(0), 1, [&](int64_t row, int64_t position, int64_t count) {
      Tensor to = gradient.slice(position, position + count);
      kernels_of(dy).elementwise.accumulate(dy.queue(), to, here.slice(row, row + count));
    });
  }
};

}  // namespace

Var embedding(Tape& tape, const Tensor& ids, Weight& table, Weight* positions, int64_t first_position) {
  return apply<Embedding>(tape, ids, table, positions, first_position, static_cast<Weight*>(nullptr),
                          Tensor{});
}

Var embedding(Tape& tape, const Tensor& ids, Weight& table, Weight* positions, int64_t first_position,
              Weight& kinds, const Tensor& kind_of) {
  return apply<Embedding>(tape, ids, table, positions, first_position, &kinds, kind_of);
}

}  // namespace athanor::ops
