#include "athanor/data/sampler.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::data {
namespace {

std::vector<double> weights_of(const std::vector<Sampler::ChannelShape>& channels) {
  std::vector<double> weights;
  for (const auto& channel : channels) weights.push_back(channel.weight);
  return weights;
}

// No name of a phase or a channel holds a '/', so two pairs of them never share a stream.
std::string stream_name(const std::string& phase, const std::string& channel) {
  return phase.empty() ? "data.shuffle." + channel : fmt::format("data.shuffle/{}/{}", phase, channel);
}

}  // namespace

Sampler::Sampler(std::vector<ChannelShape> channels, uint64_t seed, int64_t global_batch, SamplePhase phase)
    : channels_(std::move(channels)),
      mixture_(weights_of(channels_)),
      global_batch_(global_batch),
      phase_(std::move(phase)) {
  check(global_batch >= 1, "sampler: got a global batch of {}, expected at least 1", global_batch);
  check(phase_.first_step >= 1, "sampler: got a phase from step {}, expected at least 1", phase_.first_step);
  check(phase_.name.find('/') == std::string::npos,
        "sampler: got the phase '{}', expected a name without '/'", phase_.name);
  for (const BatchSkip& skip : phase_.skips)
    check(skip.batches >= 1, "sampler: got a skip of {} batches at step {}, expected at least 1",
          skip.batches, skip.step);
  std::erase_if(phase_.skips, [&](const BatchSkip& skip) { return skip.step < phase_.first_step; });
  for (const QuarantinedSequence& bad : phase_.quarantine) {
    const auto [at, is_new] = quarantined_from_.try_emplace({bad.channel, bad.epoch, bad.sequence}, bad.step);
    if (!is_new) at->second = std::min(at->second, bad.step);
  }
  for (const auto& channel : channels_) {
    check(channel.weight == 0 || channel.num_sequences >= 1,
          "channel '{}': got {} sequences, expected at least 1", channel.name, channel.num_sequences);
    shuffles_.emplace_back(seed, stream_name(phase_.name, channel.name));
  }
}

int64_t Sampler::batch_of(int64_t step) const {
  check(step >= phase_.first_step, "sampler: got step {}, expected steps from {}", step, phase_.first_step);
  int64_t batch = step - phase_.first_step;
  for (const BatchSkip& skip : phase_.skips) {
    if (skip.step > step) continue;
    check(skip.batches <= std::numeric_limits<int64_t>::max() - batch,
          "sampler: step {}: more batches are skipped than 63 bits can count", step);
    batch += skip.batches;
  }
  return batch;
}

Sample Sampler::sample(int64_t step, int64_t slot) const {
  Sample sample = sample_of_batch(batch_of(step), slot);
  if (quarantined_from_.empty()) return sample;
  for (const int64_t epoch : {int64_t{-1}, sample.epoch}) {
    const auto found = quarantined_from_.find({sample.channel, epoch, sample.sequence});
    sample.quarantined |= found != quarantined_from_.end() && found->second <= step;
  }
  return sample;
}

Sample Sampler::sample_of_batch(int64_t batch, int64_t slot) const {
  check(batch >= 0 && batch < std::numeric_limits<int64_t>::max() / global_batch_,
        "sampler: got batch {}, expected batches from 0 whose samples 63 bits can count", batch);
  check(slot >= 0 && slot < global_batch_, "sampler: got slot {}, expected 0 to {}", slot, global_batch_ - 1);
  const Draw draw = mixture_.draw(batch * global_batch_ + slot);
  const ChannelShape& channel = channels_[static_cast<size_t>(draw.channel)];
  const int64_t size = channel.num_sequences, epoch = draw.number / size;
  const int64_t sequence = sequence_of(draw.channel, epoch, draw.number % size);
  return {.channel = draw.channel,
          .epoch = epoch,
          .sequence = sequence,
          .absent = channel.ends_after >= 0 && epoch * size + sequence >= channel.ends_after};
}

int64_t Sampler::drawn_before(int64_t step, int channel) const {
  return mixture_.count(channel, batch_of(step) * global_batch_);
}

int64_t Sampler::sequence_of(int channel, int64_t epoch, int64_t number) const {
  const auto c = static_cast<size_t>(channel);
  const Philox4 words = shuffles_[c].block(static_cast<uint64_t>(epoch), 0);
  const Permutation shuffle(static_cast<uint64_t>(channels_[c].num_sequences),
                            words[0] | uint64_t{words[1]} << 32);
  return static_cast<int64_t>(shuffle(static_cast<uint64_t>(number)));
}

}  // namespace athanor::data
