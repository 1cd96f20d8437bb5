#include "athanor/data/batch.h"

#include <algorithm>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::data {

BatchReader::BatchReader(std::span<const Channel> channels, Sampler sampler, int64_t micro_batch_size)
    : channels_(channels), sampler_(std::move(sampler)), micro_batch_size_(micro_batch_size), seq_len_(0) {
  check(!channels_.empty() && channels_.size() == sampler_.channels().size(),
        "batch reader: got {} channels, expected the {} of the sampler", channels_.size(),
        sampler_.channels().size());
  check(micro_batch_size_ >= 1, "batch reader: got a micro batch of {}, expected at least 1",
        micro_batch_size_);
  seq_len_ = channels_[0].seq_len();
  for (const Channel& channel : channels_)
    check(channel.seq_len() == seq_len_, "channel '{}': got a seq_len of {}, expected {} as in '{}'",
          channel.name(), channel.seq_len(), seq_len_, channels_[0].name());
  for (const Channel& channel : channels_)
    check(channel.tells_documents_apart() == channels_[0].tells_documents_apart(),
          "channel '{}': {} documents apart, expected it to do as '{}' does", channel.name(),
          channel.tells_documents_apart() ? "tells" : "does not tell", channels_[0].name());
}

int64_t BatchReader::num_micro_batches() const {
  return (sampler_.global_batch() + micro_batch_size_ - 1) / micro_batch_size_;
}

void BatchReader::read(int64_t step, int64_t micro_batch, Batch& batch) const {
  check(micro_batch >= 0 && micro_batch < num_micro_batches(),
        "batch reader: micro-batch {}, expected 0 to {}", micro_batch, num_micro_batches() - 1);
  batch.step = step;
  batch.micro_batch = micro_batch;
  batch.seq_len = seq_len_;
  batch.first_index = micro_batch * micro_batch_size_;
  batch.num_sequences = std::min(micro_batch_size_, sampler_.global_batch() - batch.first_index);
  const auto rows = static_cast<size_t>(batch.num_sequences), width = static_cast<size_t>(seq_len_);
  batch.tokens.resize(rows * width);
  batch.targets.resize(rows * width);
  batch.channel_of.resize(rows);
  batch.document_starts.resize(channels_[0].tells_documents_apart() ? rows * width : 0);
  std::vector<int32_t> ids(width + 1);
  for (size_t b = 0; b < rows; ++b) {
    const Sample sample = sampler_.sample(step, batch.first_index + static_cast<int64_t>(b));
    channels_[static_cast<size_t>(sample.channel)].read_train(sample.sequence, ids);
    batch.channel_of[b] = sample.channel;
    std::copy(ids.begin(), ids.end() - 1, batch.tokens.begin() + static_cast<int64_t>(b * width));
    std::copy(ids.begin() + 1, ids.end(), batch.targets.begin() + static_cast<int64_t>(b * width));
    if (!batch.document_starts.empty())
      channels_[static_cast<size_t>(sample.channel)].document_starts(
          sample.sequence * seq_len_, std::span(batch.document_starts).subspan(b * width, width));
  }
}

Sampler make_sampler(std::span<const Channel> channels, uint64_t seed, int64_t global_batch,
                     SamplePhase phase) {
  std::vector<Sampler::ChannelShape> shapes;
  for (const Channel& channel : channels)
    shapes.push_back({channel.name(), channel.weight(), channel.num_train_sequences()});
  return Sampler(std::move(shapes), seed, global_batch, std::move(phase));
}

}  // namespace athanor::data
