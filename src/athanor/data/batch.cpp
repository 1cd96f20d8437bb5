#include "athanor/data/batch.h"

#include <algorithm>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::data {
namespace {

std::string file_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

}  // namespace

BatchReader::BatchReader(std::span<const Channel> channels, Sampler sampler, int64_t micro_batch_size,
                         OnDamage on_damage)
    : channels_(channels),
      sampler_(std::move(sampler)),
      micro_batch_size_(micro_batch_size),
      seq_len_(0),
      on_damage_(on_damage) {
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
  batch.damage.clear();
  std::vector<int32_t> ids(width + 1);
  for (size_t b = 0; b < rows; ++b) {
    const Sample sample = sampler_.sample(step, batch.first_index + static_cast<int64_t>(b));
    const Channel& channel = channels_[static_cast<size_t>(sample.channel)];
    bool is_left_out = sample.quarantined;
    if (!is_left_out && on_damage_ == OnDamage::fail) {
      channel.read_train(sample.sequence, ids);
    } else if (!is_left_out) {
      auto damage = channel.try_read_train(sample.sequence, ids);
      is_left_out = damage.has_value();
      if (damage) batch.damage.push_back(std::move(*damage));
    }
    if (is_left_out) std::fill(ids.begin(), ids.end(), 0);
    batch.channel_of[b] = sample.channel;
    std::copy(ids.begin(), ids.end() - 1, batch.tokens.begin() + static_cast<int64_t>(b * width));
    std::copy(ids.begin() + 1, ids.end(), batch.targets.begin() + static_cast<int64_t>(b * width));
    const std::span<int32_t> targets = std::span(batch.targets).subspan(b * width, width);
    if (is_left_out)
      std::fill(targets.begin(), targets.end(), kNoTarget);
    else
      channel.mask_targets(sample.sequence * seq_len_, targets);
    if (!batch.document_starts.empty())
      channel.document_starts(sample.sequence * seq_len_,
                              std::span(batch.document_starts).subspan(b * width, width));
  }
}

Sampler make_sampler(std::span<const Channel> channels, uint64_t seed, int64_t global_batch,
                     SamplePhase phase, const std::vector<Quarantine>& quarantines) {
  std::vector<Sampler::ChannelShape> shapes;
  for (const Channel& channel : channels) {
    const int number = static_cast<int>(shapes.size());
    shapes.push_back({channel.name(), channel.weight(), channel.num_train_sequences()});
    for (const Quarantine& each : quarantines)
      if (each.channel == channel.name() &&
          file_name(each.file) == file_name(channel.tokens().prefix()) + ".bin")
        for (const int64_t sequence : channel.sequences_at(each.offset))
          phase.quarantine.push_back({each.step, number, sequence});
  }
  return Sampler(std::move(shapes), seed, global_batch, std::move(phase));
}

}  // namespace athanor::data
