// Finds a rank whose memory grows from step to step, long before it is used up.
//
//   MemoryWatch watch({});
//   watch.begin();                                                  // a world or segment: nothing is known of its memory
//   if (!watch.is_due(now)) return;
//   watch.taken(now);                                               // of each rank:
//   if (const auto found = watch.sample(rank, {.step = step, .bytes = own_memory_bytes(process), .at_ns = now}, left))
//     tell(sentence_of(*found, 0, left, watch.num_told()));
//
// - Samples are taken once a second, and every eighth, 64th and 512th is kept for longer: so there are four windows, of a minute to
//   nine hours, with 64 samples each. What comes in the first steps and seconds is not looked at.
// - The growth in a window is the median slope of all pairs of samples (Theil and Sen), so that a few that are far off, as in a save,
//   do not matter. Memory grows if it does so in each quarter of at least 100 steps: what fills up, or comes in one jump, or
//   goes up and down, does not. The growth has to be above the noise, 16 MiB, 2 % of the memory and 1 KiB a step.
// - What is left would have to be used up within 64 times the window: slow growth wants a longer look, and is no more urgent.
// - Each rank is told once.
//
// Thread rule: one thread. No input/output, no clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::launch::diagnosis {

struct MemoryWatchOptions {
  int64_t every_ns = 1'000'000'000;
  int64_t first_steps = 20, first_ns = 10'000'000'000;  // not looked at
  int64_t least_steps = 100;
  double least_bytes = 16 << 20, least_share = 0.02;  // of growth; of the memory that the rank has
  double least_bytes_per_step = 1 << 10;
  double most_windows = 64;  // until memory is used up
};

struct MemorySample {
  int64_t step = 0, bytes = 0, at_ns = 0;
};

struct MemoryGrowth {
  int rank = 0;
  double bytes_per_step = 0;
  double steps_per_second = 0;
  int64_t first_step = 0, last_step = 0;  // of the window
  int64_t bytes = 0;                      // that it has now
  double grown_bytes() const { return bytes_per_step * static_cast<double>(last_step - first_step); }
};

// "rank 1: memory grows by 1.2 MiB a step (from step 120 to 640 by 624.0 MiB, to 2.1 GiB); what is left is used up in 3h20m, at step
// 15200".
// `available_bytes`: what is left for all of the `num_growing` ranks, which grow alike; 0: nobody knows.
std::string sentence_of(const MemoryGrowth& found, int first_rank, double available_bytes, int num_growing);

class MemoryWatch {
 public:
  explicit MemoryWatch(const MemoryWatchOptions& options) : options_(options) {}

  void begin();
  void forget(int rank);  // its process has ended
  bool is_due(int64_t now_ns) const { return now_ns >= next_ns_; }
  void taken(int64_t now_ns) { next_ns_ = now_ns + options_.every_ns; }  // a sample of each rank
  std::optional<MemoryGrowth> sample(int rank, const MemorySample& sample, double available_bytes);
  int num_told() const;

 private:
  static constexpr size_t kLevels = 4, kThinning = 8, kSamples = 64;
  struct Rank {
    int64_t first_step = -1, first_ns = 0, last_step = -1;
    std::array<std::vector<MemorySample>, kLevels> windows{};
    std::array<size_t, kLevels> num_taken{};
    bool is_told = false;
  };
  static bool take(Rank& rank, size_t level, const MemorySample& sample);
  std::optional<MemoryGrowth> growth_in(const std::vector<MemorySample>& window,
                                        double available_bytes) const;

  MemoryWatchOptions options_;
  int64_t next_ns_ = 0;
  std::map<int, Rank> ranks_;
};

}  // namespace athanor::launch::diagnosis
