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

std::vector<int32_t> document_ends_of(std::span<const int32_t> starts, int64_t seq_len) {
  std::vector<int32_t> ends(starts.size());
  for (int64_t i = std::ssize(starts) - 1; i >= 0; --i) {
    const auto at = static_cast<size_t>(i);
    const bool is_last = (i + 1) % seq_len == 0;
    ends[at] = is_last                        ? static_cast<int32_t>(seq_len)
               : starts[at + 1] == starts[at] ? ends[at + 1]
                                              : static_cast<int32_t>(i % seq_len + 1);
  }
  return ends;
}

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
    batch.channel_of[b] = sample.channel;
    const auto row = [&](std::vector<int32_t>& of) { return std::span(of).subspan(b * width, width); };
    const bool has_starts = !batch.document_starts.empty();
    read_sequence(sample,
                  {row(batch.tokens), row(batch.targets),
                   has_starts ? row(batch.document_starts) : std::span<int32_t>()},
                  ids, batch.damage);
  }
  batch.document_ends = channels_[0].objective() == nullptr || batch.document_starts.empty()
                            ? std::vector<int32_t>()
                            : document_ends_of(batch.document_starts, seq_len_);
}

// What one sequence of a batch is; places that no window fills are padding, a document of their own without targets.
void BatchReader::read_sequence(const Sample& sample, const Row& row, std::vector<int32_t>& ids,
                                std::vector<DamagedToken>& damage) const {
  const auto of_epoch = channels_[static_cast<size_t>(sample.channel)].of_epoch(sample.epoch);
  bool is_left_out = sample.quarantined;
  size_t at = 0;
  std::vector<Window> windows;
  if (of_epoch != nullptr && sample.sequence < of_epoch->num_train_sequences())
    windows = of_epoch->train_windows(sample.sequence);  // else the text has ended before it
  for (const Window& window : windows) {
    const Channel& channel = *of_epoch;
    const auto length = static_cast<size_t>(window.targets);
    const std::span<int32_t> read(ids.data(), length + 1);
    if (!is_left_out && on_damage_ == OnDamage::fail) {
      channel.read(window.first, read);
    } else if (!is_left_out) {
      auto found = channel.try_read(window.first, read);
      is_left_out = found.has_value();
      if (found) damage.push_back(std::move(*found));
    }
    std::copy(read.begin(), read.end() - 1, row.tokens.begin() + static_cast<std::ptrdiff_t>(at));
    std::copy(read.begin() + 1, read.end(), row.targets.begin() + static_cast<std::ptrdiff_t>(at));
    channel.mask_targets(window.first, row.targets.subspan(at, length));
    if (!row.starts.empty()) {
      const std::span<int32_t> starts = row.starts.subspan(at, length);
      channel.document_starts(window.first, starts);
      for (int32_t& start : starts) start += static_cast<int32_t>(at);
    }
    at += length;
  }
  std::fill(row.tokens.begin() + static_cast<std::ptrdiff_t>(at), row.tokens.end(), 0);
  std::fill(row.targets.begin() + static_cast<std::ptrdiff_t>(at), row.targets.end(), kNoTarget);
  if (!row.starts.empty())
    std::fill(row.starts.begin() + static_cast<std::ptrdiff_t>(at), row.starts.end(),
              static_cast<int32_t>(at));
  if (!is_left_out) {
    const Channel& channel = channels_[static_cast<size_t>(sample.channel)];
    if (channel.objective() != nullptr)
      channel.objective()->apply({channel.name(), sample.epoch, sample.sequence},
                                 {row.tokens, row.targets, static_cast<int64_t>(at)});
    return;
  }
  std::fill(row.tokens.begin(), row.tokens.end(), 0);
  std::fill(row.targets.begin(), row.targets.end(), kNoTarget);
}

bool BatchReader::has(int64_t step) const {
  for (size_t c = 0; c < channels_.size(); ++c) {
    const Spool* spool = channels_[c].spool();
    if (spool == nullptr) continue;
    const int64_t drawn = sampler_.drawn_before(step + 1, static_cast<int>(c));
    if (drawn > 0 && !spool->has((drawn - 1) / spool->shape().window)) return false;
  }
  return true;
}

std::optional<std::string> BatchReader::ended_before(int64_t step) const {
  for (size_t c = 0; c < channels_.size(); ++c) {
    const Spool* spool = channels_[c].spool();
    const auto end = spool == nullptr ? std::nullopt : spool->end();
    if (!end) continue;
    const int64_t window = spool->shape().window, whole = end->sequences / window,
                  rest = end->sequences % window;
    const int channel = static_cast<int>(c);
    int64_t draws = whole * window;  // up to the last one that has a sequence
    for (int64_t number = window; rest > 0 && number-- > 0;)
      if (sampler_.sequence_of(channel, whole, number) < rest) {
        draws += number + 1;
        break;
      }
    if (sampler_.drawn_before(step, channel) >= draws) return channels_[c].name();
  }
  return std::nullopt;
}

Sampler make_sampler(std::span<const Channel> channels, uint64_t seed, int64_t global_batch,
                     SamplePhase phase, const std::vector<Quarantine>& quarantines) {
  std::vector<Sampler::ChannelShape> shapes;
  for (const Channel& channel : channels) {
    const int number = static_cast<int>(shapes.size());
    shapes.push_back({channel.name(), channel.weight(), channel.num_train_sequences()});
    if (const Spool* of_text = channel.spool()) {
      if (const auto end = of_text->end()) shapes.back().ends_after = end->sequences;
      for (const Quarantine& each : quarantines)
        if (const auto window = spool::window_of(file_name(each.file));
            window && each.channel == channel.name() && of_text->window(*window) != nullptr)
          for (const int64_t sequence : channel.of_epoch(*window)->sequences_at(each.offset))
            phase.quarantine.push_back(
                {.step = each.step, .channel = number, .sequence = sequence, .epoch = *window});
      continue;
    }
    for (const Quarantine& each : quarantines)
      if (each.channel == channel.name() &&
          file_name(each.file) == file_name(channel.tokens().prefix()) + ".bin")
        for (const int64_t sequence : channel.sequences_at(each.offset))
          phase.quarantine.push_back({each.step, number, sequence});
  }
  return Sampler(std::move(shapes), seed, global_batch, std::move(phase));
}

}  // namespace athanor::data
