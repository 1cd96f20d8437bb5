#include "athanor/run/tuning/candidates.h"

#include <algorithm>

namespace athanor::run::tuning {
namespace {

// `up`, `down`: the values beside the present one; none: there is none.
std::optional<int64_t> climb(int64_t now, std::optional<int64_t> up, std::optional<int64_t> down,
                             const std::set<int64_t>& tried, const Fits& fits) {
  const bool knows_larger = tried.upper_bound(now) != tried.end();
  const bool knows_smaller = !tried.empty() && *tried.begin() < now;
  if (up && !knows_larger && fits(*up)) return up;
  if (down && !knows_smaller && fits(*down)) return down;
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> next_micro_batch(int64_t now, const BatchShape& shape, const std::set<int64_t>& tried,
                                        const Fits& fits) {
  const auto divides = [&](int64_t size) { return shape.global_batch_size % (size * shape.data_ranks) == 0; };
  std::optional<int64_t> up, down;
  for (int64_t size = now + 1; size <= shape.global_batch_size; ++size)
    if (divides(size) && (!up || size <= 2 * now)) up = size;
  for (int64_t size = now - 1; size >= 1; --size)
    if (divides(size) && (!down || 2 * size >= now)) down = size;
  return climb(now, up, down, tried, fits);
}

std::optional<int64_t> next_threads(int64_t now, int64_t most, const std::set<int64_t>& tried,
                                    const Fits& fits) {
  std::optional<int64_t> up, down;
  if (now < most) up = std::min(2 * now, most);
  if (now > 1) down = now / 2;
  return climb(now, up, down, tried, fits);
}

}  // namespace athanor::run::tuning
