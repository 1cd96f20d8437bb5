#include "athanor/layout/elastic.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "athanor/base/error.h"
#include "athanor/config/validate.h"

namespace athanor::layout {
namespace {

struct Sizes {
  int64_t pp, cp, tp, ep;
};

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> all;
  for (int64_t one = number; one >= 1; --one)
    if (number % one == 0) all.push_back(one);
  return all;
}

std::optional<Layout> layout_with(Config config, const Sizes& sizes, const Ranks& ranks) {
  ParallelConfig& p = config.parallel;
  if (sizes.pp != p.pp) p.stage_layers.clear();
  p.pp = sizes.pp;
  p.cp = sizes.cp;
  p.tp = sizes.tp;
  p.ep = sizes.ep;
  p.sp = p.sp && p.tp > 1;
  try {
    validate(config);
    return make_layout(config, ranks);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

// The first that is legal: smaller sizes of what may change.
std::optional<Layout> smaller(const Config& config, const Ranks& ranks, bool is_exact) {
  const ParallelConfig& p = config.parallel;
  const auto sizes_of = [&](int64_t asked) {
    return is_exact ? std::vector<int64_t>{asked} : divisors(asked);
  };
  std::vector<Sizes> all;
  for (const int64_t pp : divisors(p.pp))
    for (const int64_t tp : sizes_of(p.tp))
      for (const int64_t cp : sizes_of(p.cp))
        for (const int64_t ep : sizes_of(p.ep)) all.push_back({pp, cp, tp, ep});
  std::stable_sort(all.begin(), all.end(),
                   [](const Sizes& a, const Sizes& b) { return a.pp * a.cp * a.tp > b.pp * b.cp * b.tp; });
  for (const Sizes& sizes : all)
    if (auto layout = layout_with(config, sizes, ranks)) return layout;
  return std::nullopt;
}

}  // namespace

Layout elastic_layout(const Config& config, const Ranks& ranks) {
  try {
    return make_layout(config, ranks);
  } catch (const ConfigError& error) {
    if (auto layout = smaller(config, ranks, /*is_exact=*/true)) return *layout;
    auto layout = smaller(config, ranks, /*is_exact=*/false);
    if (!layout) throw;
    if (config.launch.allow_inexact) return *layout;
    throw ConfigError(error.what(),
                      fmt::format("launch.allow_inexact = true lets the job go on with {}, whose sums are in "
                                  "another order",
                                  layout->text()));
  }
}

std::string order_of_sums(const Layout& layout) {
  return fmt::format("tp {}, cp {}, ep {}", layout.tp, layout.cp, layout.ep);
}

}  // namespace athanor::layout
