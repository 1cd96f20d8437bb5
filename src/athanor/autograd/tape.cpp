#include "athanor/autograd/tape.h"

#include <algorithm>
#include <utility>

#include "athanor/kernels/table.h"

namespace athanor::autograd {

Var Tape::leaf(Tensor value) {
  nodes_.push_back(nullptr);
  grads_.emplace_back();
  return {std::move(value), this, static_cast<int>(nodes_.size()) - 1};
}

Var Tape::record(Tensor value, std::shared_ptr<Node> node) {
  nodes_.push_back(std::move(node));
  grads_.emplace_back();
  return {std::move(value), this, static_cast<int>(nodes_.size()) - 1};
}

void Tape::accumulate(int node, Tensor dx) {
  if (node < 0) return;
  check(dx.defined(), "backward: an operation returned no gradient for an input that needs one");
  Tensor& sum = grads_[static_cast<size_t>(node)];
  if (!sum.defined()) {
    sum = std::move(dx);
    return;
  }
  check(sum.shape() == dx.shape() && sum.dtype() == dx.dtype(),
        "backward: gradients {} and {} of one value differ", sum.shape(), dx.shape());
  // A gradient tensor may be shared (a residual addition passes one tensor to both inputs), so only an unshared tensor
  // is overwritten. The order of the sum is fixed: the earlier gradient is the left operand.
  Tensor target = dx.unshared() ? dx : sum.unshared() ? sum : empty_like(dx);
  kernels_of(dx).elementwise.add(dx.queue(), target, sum, dx);
  sum = std::move(target);
}

Tensor Node::backward_input_onto(const Tensor&, const Tensor&) {
  fail("backward: an operation that cannot add to a gradient was asked to");
}

void Tape::backward(const Var& root, Tensor dy, DeferredWeights* deferred) {
  std::vector<Tensor> dys;
  dys.push_back(std::move(dy));
  backward({&root, 1}, std::move(dys), deferred);
}

void Tape::backward(std::span<const Var> roots, std::vector<Tensor> dys, DeferredWeights* deferred) {
  check(roots.size() == dys.size(), "backward: got {} gradients for {} roots", dys.size(), roots.size());
  int start = -1, loss = -1;
  for (size_t k = 0; k < roots.size(); ++k) {
    const int node = roots[k].node;
    check(roots[k].tape == this && node >= 0, "backward: the root is not on this tape; was it recorded?");
    check(nodes_[static_cast<size_t>(node)] != nullptr || dys[k].defined(),
          "backward: the root was walked already or needs a gradient");
    start = std::max(start, node);
    if (!dys[k].defined()) loss = node;
    if (dys[k].defined()) accumulate(node, std::move(dys[k]));
  }
  for (size_t i = static_cast<size_t>(start) + 1; i-- > 0;) {
    if (nodes_[i] == nullptr || (!grads_[i].defined() && static_cast<int>(i) != loss)) continue;
    context_.look_up();
    Tensor dy = std::exchange(grads_[i], {});
    const std::shared_ptr<Node> node = std::move(nodes_[i]);
    for (const auto& recomputed : node->restorables) recomputed->restore();
    dy = node->begin_backward(std::move(dy));
    if (const int input = node->inputs.size() == 1 ? node->inputs[0] : -1;
        input >= 0 && node->adds() && grads_[static_cast<size_t>(input)].defined()) {
      Tensor& sum = grads_[static_cast<size_t>(input)];
      sum = deferred == nullptr ? node->backward_onto(dy, sum, context_.micro_batch)
                                : node->backward_input_onto(dy, sum);
      if (deferred != nullptr && node->has_weights()) deferred->parts_.push_back({node, dy});
      dy = {};
      continue;
    }
    std::vector<Tensor> input_grads;
    if (deferred == nullptr) {
      input_grads = node->backward(dy, context_.micro_batch);
    } else {
      input_grads = node->backward_input(dy);
      if (node->has_weights()) deferred->parts_.push_back({node, dy});
    }
    dy = {};
    check(input_grads.size() == node->inputs.size(), "backward: got {} gradients for {} inputs",
          input_grads.size(), node->inputs.size());
    for (size_t k = 0; k < input_grads.size(); ++k) accumulate(node->inputs[k], std::move(input_grads[k]));
  }
}

void Tape::end_selective_recompute(const Var& result) {
  for (const auto& recomputed : recomputed_)
    if (!recomputed->is(result.value)) recomputed->release();
  recomputed_.clear();
  recomputing_ = false;
}

void Tape::begin_block(const Var& x) {
  if (context_.activations == nullptr || !recording()) return;
  block_first_ = nodes_.size();
  block_storages_ = {x.value.storage()};
  watched_ = &x.value.arena();
  watched_->watch(&block_storages_);
}

void Tape::end_block(const Var& y) {
  if (watched_ == nullptr) return;
  std::exchange(watched_, nullptr)->watch(nullptr);
  std::vector<std::shared_ptr<Storage>> left;
  for (const auto& watched : block_storages_)
    if (auto storage = watched.lock(); storage != nullptr && storage != y.value.storage() &&
                                       storage->category() == Category::activations && !storage->released() &&
                                       storage->size_bytes() >= kLeastStoredBytes)
      left.push_back(std::move(storage));
  block_storages_.clear();
  if (left.empty()) return;
  const auto stored = std::make_shared<StoredBlock>(*context_.activations, left);
  // In front, because values that are recomputed need offloaded ones first.
  for (size_t i = block_first_; i < nodes_.size(); ++i)
    if (nodes_[i] != nullptr) nodes_[i]->restorables.insert(nodes_[i]->restorables.begin(), stored);
}

std::shared_ptr<RecomputedValue> Tape::find_recomputed(const Tensor& value) const {
  for (const auto& recomputed : recomputed_)
    if (recomputed->is(value)) return recomputed;
  return nullptr;
}

const Tensor& Tape::grad(const Var& leaf) const {
  check(leaf.tape == this && leaf.node >= 0, "grad: the value is no leaf of this tape");
  return grads_[static_cast<size_t>(leaf.node)];
}

void DeferredWeights::run(int64_t micro_batch) {
  for (Part& part : parts_) {
    part.node->backward_weight(part.dy, micro_batch);
    part = {};  // frees what the node saved
  }
  parts_.clear();
}

}  // namespace athanor::autograd
