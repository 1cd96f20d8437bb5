#include "athanor/parallel/tensor/collective_ops.h"

#include <algorithm>

#include "athanor/autograd/apply.h"
#include "athanor/kernels/table.h"

namespace athanor::parallel::tensor {
namespace {

Tensor cast(const Tensor& x, Dtype dtype) {
  Tensor y = empty(x.arena(), x.shape(), dtype, Category::communication);
  kernels_of(x).elementwise.cast(x.queue(), y, x);
  return y;
}

Tensor copy_of(const Tensor& x) {
  Tensor y = empty_like(x);
  copy(y, x);
  return y;
}

// The sum over the ranks, on every rank; in place if no other tensor shares the memory of x. Groups cannot sum f16, so
// it is summed as f32.
Tensor all_reduce(const Tensor& x, Group& group, const char* name) {
  if (group.size() == 1) return x;
  if (x.dtype() == Dtype::f16) return cast(all_reduce(cast(x, Dtype::f32), group, name), Dtype::f16);
  Tensor sum = x.unshared() ? x : copy_of(x);
  group.all_reduce(sum.raw(), sum.numel(), sum.dtype(), name).wait(sum.queue());
  return sum;
}

// Pads x [m,C] with zeros to [rows,C].
Tensor padded(const Tensor& x, int64_t rows) {
  if (x.dim(0) == rows) return x;
  Tensor y = empty(x.arena(), {rows, x.dim(1)}, x.dtype(), Category::communication);
  Tensor values = y.slice(0, x.dim(0)), padding = y.slice(x.dim(0), rows);
  copy(values, x);
  fill_zero(padding);
  return y;
}

Tensor as_rows(const Tensor& x) {
  return x.view({x.rows(), x.dim(-1)});
}

// x [n,C] of each rank -> shape `whole`.
Tensor all_gather(const Tensor& x, const Shape& whole, Group& group, const char* name) {
  if (group.size() == 1) return x;
  const int64_t rows = whole.rows(), n = partitioned_rows(rows, group.size());
  check(x.shape() == Shape({n, whole[-1]}), "{}: got {}, expected {} of the rows of {}", name, x.shape(), n,
        whole);
  Tensor all = empty(x.arena(), {n * group.size(), whole[-1]}, x.dtype(), Category::activations);
  // Groups have no f16; its bits are gathered as bf16.
  const Dtype wire = x.dtype() == Dtype::f16 ? Dtype::bf16 : x.dtype();
  group.all_gather(x.raw(), all.raw(), x.numel(), wire, name).wait(x.queue());
  return all.slice(0, rows).view(whole);
}

// Reduce-scatter of x [...,C] by rows: [n,C].
Tensor sum_scatter(const Tensor& x, Group& group, const char* name) {
  if (group.size() == 1) return x;
  if (x.dtype() == Dtype::f16) return cast(sum_scatter(cast(x, Dtype::f32), group, name), Dtype::f16);
  const int64_t n = partitioned_rows(x.rows(), group.size());
  const Tensor all = padded(as_rows(x), n * group.size());
  Tensor own = empty(x.arena(), {n, x.dim(-1)}, x.dtype(), Category::activations);
  group.reduce_scatter(all.raw(), own.raw(), own.numel(), own.dtype(), name).wait(own.queue());
  return own;
}

// This rank's rows of x [...,C]: [n,C].
Tensor take_part(const Tensor& x, const Group& group) {
  if (group.size() == 1) return x;
  const auto [first, last] = own_rows(x.rows(), group.rank(), group.size());
  return copy_of(padded(as_rows(x).slice(first, last), partitioned_rows(x.rows(), group.size())));
}

Shape whole_shape(const PassContext& context, const Tensor& x) {
  check(context.num_sequences > 0 && context.seq_len > 0,
        "sequence parallel: the pass does not say how many tokens it has (PassContext::num_sequences, "
        "seq_len)");
  return {context.num_sequences, context.seq_len, x.dim(-1)};
}

// Rows of a pass's tokens: `rows` per rank with padding, `own` on this rank without it.
struct PartitionedShape {
  int64_t rows, own;
};
PartitionedShape partitioned_shape(const PassContext& context, const Tensor& x, const Group& group) {
  const int64_t tokens = whole_shape(context, x).rows();
  return {partitioned_rows(tokens, group.size()), own_rows(tokens, group.rank(), group.size()).count()};
}

struct CopyTo {
  struct Saved {
    Group* group;
  };
  static Tensor forward(Saved& saved, const PassContext&, const Tensor& x, Group* group) {
    saved = {group};
    return x;
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    return {all_reduce(dy, *saved.group, "copy_to backward")};
  }
};

struct ReduceFrom {
  struct Saved {};
  static Tensor forward(Saved&, const PassContext&, const Tensor& x, Group* group) {
    // Copies x, since other operations may read it.
    return all_reduce(group->size() == 1 ? x : copy_of(x), *group, "reduce_from");
  }
  static std::array<Tensor, 1> backward_input(const Saved&, const Tensor& dy) { return {dy}; }
};

struct GatherToPartial {
  struct Saved {
    Group* group;
  };
  static Tensor forward(Saved& saved, const PassContext& context, const Tensor& x, Group* group) {
    saved = {group};
    return all_gather(x, whole_shape(context, x), *group, "gather_to_partial");
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    return {sum_scatter(dy, *saved.group, "gather_to_partial backward")};
  }
};

struct ReduceScatter {
  struct Saved {
    Group* group;
    Shape whole;
  };
  static Tensor forward(Saved& saved, const PassContext&, const Tensor& x, Group* group) {
    saved = {group, x.shape()};
    return sum_scatter(x, *group, "reduce_scatter");
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    return {all_gather(dy, saved.whole, *saved.group, "reduce_scatter backward")};
  }
};

struct Scattered : ReduceScatter {
  static Tensor forward(Saved& saved, const PassContext&, const Tensor& x, const Shape& whole, Group* group) {
    saved = {group, whole};
    return x;
  }
};

struct ScatterTo {
  struct Saved {
    Group* group;
    Shape whole;
  };
  static Tensor forward(Saved& saved, const PassContext&, const Tensor& x, Group* group) {
    saved = {group, x.shape()};
    return take_part(x, *group);
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    return {all_gather(dy, saved.whole, *saved.group, "scatter_to backward")};
  }
};

struct GatherToWhole {
  struct Saved {
    Group* group;
  };
  static Tensor forward(Saved& saved, const PassContext& context, const Tensor& x, Group* group) {
    saved = {group};
    return all_gather(x, whole_shape(context, x), *group, "gather_to_whole");
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    return {take_part(dy, *saved.group)};
  }
};

struct DropPadding {
  struct Saved {
    PartitionedShape shape;
  };
  static Tensor forward(Saved& saved, const PassContext& context, const Tensor& x, Group* group) {
    saved = {partitioned_shape(context, x, *group)};
    check(x.dim(0) == saved.shape.rows, "drop_padding: got {}, expected {} rows", x.shape(),
          saved.shape.rows);
    return x.slice(0, saved.shape.own);
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    return {padded(dy, saved.shape.rows)};
  }
};

struct AddPadding {
  struct Saved {
    PartitionedShape shape;
  };
  static Tensor forward(Saved& saved, const PassContext& context, const Tensor& x, Group* group) {
    saved = {partitioned_shape(context, x, *group)};
    check(x.dim(0) == saved.shape.own, "add_padding: got {}, expected {} rows", x.shape(), saved.shape.own);
    return padded(x, saved.shape.rows);
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    return {dy.slice(0, saved.shape.own)};
  }
};

}  // namespace

Var copy_to(const Var& x, Group& group) {
  return apply<CopyTo>(*x.tape, x, &group);
}
Var reduce_from(const Var& x, Group& group) {
  return apply<ReduceFrom>(*x.tape, x, &group);
}
Var gather_to_partial(const Var& x, Group& group) {
  return apply<GatherToPartial>(*x.tape, x, &group);
}
Var reduce_scatter(const Var& x, Group& group) {
  return apply<ReduceScatter>(*x.tape, x, &group);
}
Var scattered(const Var& x, const Shape& whole, Group& group) {
  return apply<Scattered>(*x.tape, x, whole, &group);
}
Var scatter_to(const Var& x, Group& group) {
  return apply<ScatterTo>(*x.tape, x, &group);
}
Var gather_to_whole(const Var& x, Group& group) {
  return apply<GatherToWhole>(*x.tape, x, &group);
}
Var drop_padding(const Var& x, Group& group) {
  return group.size() == 1 ? x : apply<DropPadding>(*x.tape, x, &group);
}
Var add_padding(const Var& x, Group& group) {
  return group.size() == 1 ? x : apply<AddPadding>(*x.tape, x, &group);
}

}  // namespace athanor::parallel::tensor
