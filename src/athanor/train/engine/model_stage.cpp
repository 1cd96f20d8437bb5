#include "athanor/train/engine/model_stage.h"

#include "athanor/parallel/tensor/collective_ops.h"

namespace athanor::train::engine {

ModelStage::ModelStage(const Model& model, const ModelPart& part, RecomputePlan recompute,
                       ModelStageHooks hooks)
    : TapeStage(part.ends),
      model_(model),
      part_(part),
      recompute_(std::move(recompute)),
      hooks_(std::move(hooks)) {
  check(!model.params().empty() && model.params().front()->defined(),
        "pipeline: got a model without memory, expected Model::allocate() before its stages are made");
}

Tensor ModelStage::make_boundary(int micro_batch) {
  const Tensor ids = hooks_.micro_batch(micro_batch).ids;
  const int64_t width = model_.config().hidden_size;
  const Shape shape = hooks_.token_ranks == 1
                          ? Shape{ids.dim(0), ids.dim(1), width}
                          : Shape{partitioned_rows(ids.numel(), hooks_.token_ranks), width};
  return empty(ids.arena(), shape, model_.weights().front()->param().dtype(), Category::activations);
}

PassContext ModelStage::context(int micro_batch) {
  return hooks_.micro_batch(micro_batch).context;
}

Var ModelStage::compute(Tape& tape, int micro_batch, const Var& x) {
  const MicroBatch batch = hooks_.micro_batch(micro_batch);
  Var y = model_.run(part_, tape, batch.ids, x, batch.targets, recompute_);
  if (!part_.ends) return y;
  if (hooks_.on_loss) hooks_.on_loss(micro_batch, y.value);
  return y;
}

Work add_tied_uses(Group& ends, Tensor& grad, const std::string& name) {
  check(ends.size() == 2, "tied embeddings: got a group of {} ranks, expected the first and the last stage's",
        ends.size());
  check(grad.dtype() == Dtype::f32, "tied embeddings: got gradients of {}, expected f32",
        name_of(grad.dtype()));
  return ends.all_reduce(grad.data<float>(), grad.numel(), Dtype::f32, name);
}

}  // namespace athanor::train::engine
