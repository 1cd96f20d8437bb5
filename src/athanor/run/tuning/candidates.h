// Which value of a setting is tried next: up, as long as that helps, else down, as long as that does. A value is tried once.
//
//   next_micro_batch(2, {.global_batch_size = 24, .data_ranks = 2}, /*tried=*/{1, 2}, fits);      // 4
//   next_threads(4, /*most=*/4, /*tried=*/{}, [](int64_t) { return true; });                       // 2
//
// Micro-batch sizes are those that give every data-parallel rank equally many whole micro-batches; the next one up is the
// largest that is at most twice as large, else the smallest larger one, and so downwards. Threads double or halve, up to
// `most`. Nothing beyond a value that was tried comes into question: that one was not faster, or the climb came from there.
// `fits` is asked in the same order by whoever asks the same. Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>

#include "athanor/base/namespaces.h"

namespace athanor::run::tuning {

struct BatchShape {
  int64_t global_batch_size = 1;
  int64_t data_ranks = 1;
};
using Fits = std::function<bool(int64_t value)>;

std::optional<int64_t> next_micro_batch(int64_t now, const BatchShape& shape, const std::set<int64_t>& tried,
                                        const Fits& fits);
std::optional<int64_t> next_threads(int64_t now, int64_t most, const std::set<int64_t>& tried,
                                    const Fits& fits);

}  // namespace athanor::run::tuning
