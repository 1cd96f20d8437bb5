#include "athanor/data/sampler.h"

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
  for (const auto& channel : channels_) {
    check(channel.weight == 0 || channel.num_sequences >= 1,
          "channel '{}': got {} sequences, expected at least 1", channel.name, channel.num_sequences);
    shuffles_.emplace_back(seed, stream_name(phase_.name, channel.name));
  }
}

Sample Sampler::sample(int64_t step, int64_t slot) const {
  check(step >= phase_.first_step && step <= std::numeric_limits<int64_t>::max() / global_batch_,
        "sampler: got step {}, expected steps from {} whose samples 63 bits can count", step,
        phase_.first_step);
  check(slot >= 0 && slot < global_batch_, "sampler: got slot {}, expected 0 to {}", slot, global_batch_ - 1);
  const Draw draw = mixture_.draw((step - phase_.first_step) * global_batch_ + slot);
  const auto channel = static_cast<size_t>(draw.channel);
  const int64_t size = channels_[channel].num_sequences;
  const int64_t epoch = draw.number / size;
  const Philox4 words = shuffles_[channel].block(static_cast<uint64_t>(epoch), 0);
  const Permutation shuffle(static_cast<uint64_t>(size), words[0] | uint64_t{words[1]} << 32);
  return {draw.channel, epoch, static_cast<int64_t>(shuffle(static_cast<uint64_t>(draw.number % size)))};
}

}  // namespace athanor::data
