#include "athanor/engine/micro_batch.h"

#include "athanor/comm/tree.h"

namespace athanor::engine {

Tensor to_tensor(Arena& arena, const std::vector<int32_t>& ids, int64_t batch, int64_t length) {
  Tensor tensor = empty(arena, {batch, length}, Dtype::i32, Category::activations);
  if (arena.queue().device() != Device::null)
    copy_from_host(tensor, ids.data(), ids.size() * sizeof(int32_t));
  return tensor;
}

MicroBatch make_micro_batch(Arena& arena, const TrainState& state, const Batch& batch,
                            const ContextParallel* context) {
  const int64_t length = context == nullptr ? batch.seq_len : context->seq_len();
  const auto own = [&](const std::vector<int32_t>& values) {
    const bool all = context == nullptr || arena.queue().device() == Device::null;
    return to_tensor(arena, all ? values : context->take(values, batch.num_sequences), batch.num_sequences,
                     length);
  };
  const auto whole = [&](const std::vector<int32_t>& values) {
    return values.empty() ? Tensor{} : to_tensor(arena, values, batch.num_sequences, batch.seq_len);
  };
  return {{.seed = state.seed,
           .step = static_cast<uint64_t>(state.step + 1),
           .first_sequence = batch.first_index,
           .num_sequences = batch.num_sequences,
           .seq_len = length,
           .part = context == nullptr ? nullptr : &context->part(),
           .document_starts = whole(batch.document_starts),
           .document_ends = whole(batch.document_ends),
           .record = true,
           .dropout = true,
           .loss_scale = static_cast<float>(state.loss_scale.scale)},
          {.ids = own(batch.tokens), .targets = own(batch.targets)}};
}

void MicroBatchLosses::add(int64_t micro_batch, const Batch& batch, const ContextParallel* context,
                           const Tensor& of_tokens) {
  if (of_tokens.queue().device() == Device::null) return;
  const std::vector<int32_t> own =
      context == nullptr ? std::vector<int32_t>() : context->take(batch.targets, batch.num_sequences);
  const std::vector<int32_t>& targets = context == nullptr ? batch.targets : own;
  const int64_t length = context == nullptr ? batch.seq_len : context->seq_len();
  std::vector<float> per_token(static_cast<size_t>(of_tokens.numel()));
  copy_to_host(per_token.data(), of_tokens, of_tokens.size_bytes());
  read(micro_batch) += static_cast<double>(batch.num_sequences * length);
  for (int64_t b = 0; b < batch.num_sequences; ++b)
    for (int64_t t = 0; t < length; ++t) {
      const auto i = static_cast<size_t>(b * length + t);
      if (targets[i] < 0) continue;
      const int64_t channel = batch.channel_of[static_cast<size_t>(b)];
      loss(micro_batch, channel) += static_cast<double>(per_token[i]);
      tokens(micro_batch, channel) += 1.0;
    }
}

double MicroBatchLosses::tokens_of(int64_t first, int64_t last) {
  double sum = 0.0;
  for (int64_t micro_batch = first; micro_batch < last; ++micro_batch)
    for (int64_t c = 0; c < channels; ++c) sum += tokens(micro_batch, c);
  return sum;
}

MicroBatchLosses::Means MicroBatchLosses::means() {
  const auto column = [&](auto&& value) {
    std::vector<double> of_micro_batches;
    for (int64_t micro_batch = 0; micro_batch < micro_batches; ++micro_batch)
      of_micro_batches.push_back(value(micro_batch));
    return tree_sum(of_micro_batches);
  };
  Means means;
  double all_tokens = 0.0;
  for (int64_t c = 0; c < channels; ++c) {
    const double channel_tokens = column([&](int64_t g) { return tokens(g, c); });
    const double channel_loss = column([&](int64_t g) { return loss(g, c); });
    means.channel.push_back(channel_loss / channel_tokens);
    all_tokens += channel_tokens;
  }
  // Sums the channels of each micro-batch in order, then the micro-batches in the tree.
  means.loss = column([&](int64_t g) {
                 double sum = 0.0;
                 for (int64_t c = 0; c < channels; ++c) sum += loss(g, c);
                 return sum;
               }) /
               all_tokens;
  means.tokens = static_cast<int64_t>(all_tokens);
  for (int64_t g = 0; g < micro_batches; ++g) means.read += static_cast<int64_t>(read(g));
  return means;
}

}  // namespace athanor::engine
