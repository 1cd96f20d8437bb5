// A segment and texts without end: it waits for what a step reads, and ends where no more comes.
#include <fmt/core.h>

#include <array>
#include <chrono>
#include <thread>

#include "athanor/run/doing.h"
#include "athanor/run/segment.h"

namespace athanor::run {
namespace {

constexpr std::chrono::milliseconds kPatience{20};  // between two looks

bool has_streams(std::span<const Channel> channels) {
  return std::ranges::any_of(channels, [](const Channel& channel) { return channel.spool() != nullptr; });
}

}  // namespace

// All ranks look at the same files, but not at the same time: they go on when each has seen what the step needs.
Segment::Data Segment::wait_for_data(const BatchReader& reader) {
  if (!has_streams(phase_.data.channels)) return Data::there;
  const int64_t step = run_.state.step + 1;
  std::optional<Doing> waiting;
  while (true) {
    const bool asked = run_.io.stop != nullptr && run_.io.stop->load() > 0;
    std::array<double, 2> ranks = {reader.has(step) ? 0.0 : 1.0,
                                   asked ? 1.0 : 0.0};  // that wait; that are asked to stop
    group_.all_reduce(ranks.data(), std::ssize(ranks), Dtype::f64, "data that have come").wait();
    if (ranks[1] > 0.0) return Data::asked_to_stop;
    if (ranks[0] == 0.0) break;
    if (!waiting) waiting.emplace(run_, control::ProgressKind::other);
    std::this_thread::sleep_for(kPatience);
  }
  return reader.ended_before(step) ? Data::ended : Data::there;
}

Segment::End Segment::end_with_data(const BatchReader& reader) {
  const std::string channel = reader.ended_before(run_.state.step + 1).value_or("");
  run_.recorder->message(fmt::format("the text of channel '{}' has ended: the run ends after step {}",
                                     channel, run_.state.step));
  run_.phases.back().last_step = last_step_ = run_.state.step;
  StepMetrics unused;
  validate_now(config_.train.eval_tokens, &unused);
  save(/*is_last=*/true);
  return end();
}

}  // namespace athanor::run
