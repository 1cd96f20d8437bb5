#include "athanor/engine/model_stage.h"

#include "athanor/parallel/tensor/collective_ops.h"

namespace athanor::engine {

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

std::vector<TensorSpec> ModelStage::boundary(bool exists, int micro_batch) const {
  if (!exists) return {};
  const Tensor ids = hooks_.micro_batch(micro_batch).inputs.ids;
  const int64_t width = model_.config().hidden_size;
  const Shape shape = hooks_.token_ranks == 1
                          ? Shape{ids.dim(0), ids.dim(1), width}
                          : Shape{partitioned_rows(ids.numel(), hooks_.token_ranks), width};
  return {{"hidden", shape, model_.weights().front()->param().dtype()}};
}

PassContext ModelStage::context(int micro_batch) {
  return hooks_.micro_batch(micro_batch).context;
}

std::vector<Var> ModelStage::compute(Tape& tape, int micro_batch, const std::vector<Var>& x) {
  const MicroBatch batch = hooks_.micro_batch(micro_batch);
  Var y = model_.run(part_, tape, batch.inputs, x.empty() ? Var{} : x.front(), recompute_);
  if (part_.ends && hooks_.on_loss) hooks_.on_loss(micro_batch, y.value);
  return {std::move(y)};
}

}  // namespace athanor::engine
