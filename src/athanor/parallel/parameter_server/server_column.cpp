#include "athanor/parallel/parameter_server/server_column.h"

#include "athanor/parallel/gradient_norm.h"

namespace athanor {

ServerColumn::ServerColumn(const std::vector<Weight*>& weights, const Column& column, Arena& arena)
    : column_(column),
      shard_(weights, column.peers.rank(), arena, column.settings),
      grains_(column.settings.roles.workers, /*own=*/0, column.settings.parts) {
  if (settings().compression.kind != Compression::none)
    coded_ = std::make_unique<CodedRows>(shard_.buckets(), servers().rank(), arena, settings());
}

std::vector<int64_t> ServerColumn::receive_shares() {
  std::vector<int64_t> counts(static_cast<size_t>(settings().roles.workers / settings().parts));
  ranks().recv(counts.data(), std::ssize(counts), Dtype::i64, 0, "shares of grains").wait();
  return counts;
}

void ServerColumn::receive(int worker, size_t bucket, int64_t step) {
  const Tensor into = shard_.incoming(bucket);
  if (into.queue().device() == Device::null) return;
  if (settings().codes(step)) return coded_->receive(ranks(), worker, bucket, into);
  ranks().recv(into.raw(), into.numel(), Dtype::f32, worker, "gradients " + std::to_string(bucket)).wait();
}

// Of a bucket the sums of all workers, in the order in which data parallelism adds them: see ReplicatedGradients.
void ServerColumn::take_step(size_t bucket, int64_t step) {
  const int workers = settings().roles.workers, parts = settings().parts;
  if (settings().reduce == Reduce::fast) {
    for (int worker = 0; worker < workers; ++worker) {
      receive(worker, bucket, step);
      shard_.take(bucket, {worker, worker + 1}, workers);
    }
    return;
  }
  const int64_t grains = settings().num_grains, num_leaves = grains_.num_leaves(grains);
  for (int i = 0; i < workers; ++i) {  // from left to right: one part of all grains, then the next
    const int worker = i % (workers / parts) * parts + i / (workers / parts);
    const LeafRange leaves = grains_.leaves(grains, worker);
    for (const LeafRange& node : cover_nodes(leaves.first, leaves.second, num_leaves)) {
      receive(worker, bucket, step);
      shard_.take(bucket, node, num_leaves);
    }
  }
}

void ServerColumn::take_step(int64_t step) {
  for (size_t bucket = 0; bucket < num_buckets(); ++bucket) take_step(bucket, step);
}

void ServerColumn::take_push(int worker, int64_t step) {
  for (size_t bucket = 0; bucket < num_buckets(); ++bucket) {
    receive(worker, bucket, step);
    shard_.take(bucket, {0, 1}, 1);
  }
}

void ServerColumn::add_squares(const std::vector<std::unique_ptr<Param>>& params,
                               std::vector<double>& squares) {
  std::vector<NormTensor> tensors;
  std::vector<size_t> places;
  for (size_t i = 0; i < params.size(); ++i) {
    const Param& param = *params[i];
    if (!has(param)) continue;
    places.push_back(i);
    tensors.push_back(
        {.numel = param.numel(), .pieces = {}, .mine = [this, &param] { return shard_.grad(param); }});
    for (int server = 0; server < settings().roles.servers; ++server)
      tensors.back().pieces.push_back(shard_.piece(param, server));
  }
  const std::vector<double> of_tensors = sum_squares(tensors, servers());
  for (size_t i = 0; i < places.size(); ++i) squares[places[i]] = of_tensors[i];
}

void ServerColumn::send_values(int worker, const std::function<void(Work)>& keep) {
  for (size_t b = num_buckets(); b-- > 0;)
    if (shard_.has_values(b)) {
      const Tensor& row = shard_.values(b);
      keep(ranks().send(row.raw(), row.numel(), row.dtype(), worker, "parameters " + std::to_string(b)));
    }
}

}  // namespace athanor
