#include "athanor/train/plan/layout_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <set>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/philox.h"
#include "athanor/config/validate.h"
#include "athanor/pipeline/schedule.h"
#include "athanor/train/plan/layout.h"

namespace athanor::train::plan {
namespace {

// An error message with N for its numbers, to count messages of one kind.
std::string without_numbers(const std::string& message) {
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  const auto ends_word = [](unsigned char c) { return std::isalnum(c) == 0; };
  std::string kind;
  for (auto word = message.begin(); word != message.end();) {
    const auto end = std::find_if(word, message.end(), ends_word);
    kind += word != end && std::all_of(word, end, is_digit) ? "N" : std::string(word, end);
    if (end != message.end()) kind += *end;
    word = end == message.end() ? end : end + 1;
  }
  return kind;
}

// Sizes of the axes whose product is at most that many ranks, legal or not.
std::vector<ParallelConfig> sizes_of_axes(const Config& config, int64_t most) {
  std::vector<ParallelConfig> all;
  ParallelConfig p = config.parallel;
  for (p.pp = 1; p.pp <= most; ++p.pp)
    for (p.tp = 1; p.pp * p.tp <= most; ++p.tp)
      for (p.cp = 1; p.pp * p.tp * p.cp <= most; ++p.cp)
        for (p.dp = 1; p.pp * p.tp * p.cp * p.dp <= most; ++p.dp)
          for (p.ep = 1; p.ep <= (config.model.num_experts > 0 ? p.dp * p.cp * p.tp : 1); ++p.ep)
            all.push_back(p);
  return all;
}

// Schedules only matter in a pipeline, forms of attention only under cp.
std::vector<ParallelConfig> every_layout(const Config& config, int64_t most) {
  std::vector<ParallelConfig> all;
  for (ParallelConfig p : sizes_of_axes(config, most)) {
    const std::vector<std::string> schedules = p.pp > 1 ? schedule_names() : std::vector{p.schedule};
    const std::vector<std::string> kinds =
        p.cp > 1 ? std::vector<std::string>{"ring", "ulysses"} : std::vector{p.cp_method};
    for (const std::string& schedule : schedules)
      for (const std::string& kind : kinds)
        for (const bool sp : {false, true})
          for (int zero = 0; zero <= 3; ++zero)
            for (const char* recompute : {"none", "selective", "full"}) {
              p.schedule = schedule;
              p.cp_method = kind;
              p.sp = sp;
              p.zero_stage = zero;
              p.recompute = recompute;
              all.push_back(p);
            }
  }
  return all;
}

// The pairs of axis values of each layout, as numbers that are common to all layouts.
std::vector<std::vector<size_t>> pairs_of(const std::vector<ParallelConfig>& layouts) {
  std::map<std::string, size_t> value_numbers;
  std::map<std::pair<size_t, size_t>, size_t> pair_numbers;
  std::vector<std::vector<size_t>> pairs;
  for (const ParallelConfig& layout : layouts) {
    std::vector<size_t> values;
    for (const std::string& value : axis_values(layout))
      values.push_back(value_numbers.try_emplace(value, value_numbers.size()).first->second);
    pairs.emplace_back();
    for (size_t a = 0; a < values.size(); ++a)
      for (size_t b = a + 1; b < values.size(); ++b)
        pairs.back().push_back(
            pair_numbers.try_emplace({values[a], values[b]}, pair_numbers.size()).first->second);
  }
  return pairs;
}

}  // namespace

LayoutWalk walk_layouts(const Config& config, int most_ranks) {
  LayoutWalk walk;
  Config tried = config;
  tried.origins.clear();  // messages must not name where a setting came from
  for (const ParallelConfig& layout : every_layout(config, most_ranks)) {
    tried.parallel = layout;
    try {
      validate(tried);
      check_ranks(tried, ranks_of(layout, tried.parameter_server.servers));
      walk.legal.push_back(layout);
    } catch (const ConfigError& error) {
      ++walk.refused[without_numbers(error.what())];
    }
  }
  return walk;
}

Config in_layout(Config config, const ParallelConfig& layout) {
  config.parallel = layout;
  return config;
}

int ranks_of(const ParallelConfig& layout, int64_t servers) {
  return static_cast<int>(layout.pp * std::max<int64_t>(1, layout.dp) * layout.cp * layout.tp + servers);
}

std::vector<std::string> axis_values(const ParallelConfig& p) {
  return {fmt::format("pp {}", p.pp),
          p.pp > 1 ? p.schedule : "no schedule",
          fmt::format("dp {}", p.dp),
          fmt::format("tp {}", p.tp),
          p.sp ? "sp" : "no sp",
          p.cp > 1 ? fmt::format("cp {} {}", p.cp, p.cp_method) : "cp 1",
          fmt::format("ep {}", p.ep),
          fmt::format("zero {}", p.zero_stage),
          fmt::format("recompute {}", p.recompute)};
}

std::vector<size_t> spanning_sample(const std::vector<ParallelConfig>& layouts, size_t at_least,
                                    uint64_t seed) {
  if (layouts.empty()) return {};
  const std::vector<std::vector<size_t>> pairs = pairs_of(layouts);
  std::set<size_t> missing;
  for (const auto& of_layout : pairs) missing.insert(of_layout.begin(), of_layout.end());
  std::vector<bool> is_missing(missing.size(), true);
  size_t num_missing = missing.size();
  std::vector<size_t> order(layouts.size());
  const Permutation shuffled(layouts.size(), RandomStream(seed, "layouts").key());
  for (size_t i = 0; i < order.size(); ++i) order[i] = shuffled(i);
  std::set<size_t> chosen;
  while (num_missing > 0) {
    size_t best = 0, best_gain = 0;
    for (const size_t i : order) {
      const auto gain =
          static_cast<size_t>(std::ranges::count_if(pairs[i], [&](size_t pair) { return is_missing[pair]; }));
      if (gain > best_gain) {
        best = i;
        best_gain = gain;
      }
    }
    chosen.insert(best);
    for (const size_t pair : pairs[best]) is_missing[pair] = false;
    num_missing -= best_gain;
  }
  for (auto next = order.begin(); chosen.size() < at_least && next != order.end(); ++next)
    chosen.insert(*next);
  return {chosen.begin(), chosen.end()};
}

bool keeps_order(const ParallelConfig& p) {
  return p.tp == 1 && p.cp == 1 && p.ep == 1 && (p.dp <= 1 || p.reduce == "tree");
}

std::string text_of(const ParallelConfig& p, int64_t servers) {
  return fmt::format("{}dp {} tp {}{}{}{} zero {}{} reduce {} recompute {}",
                     p.pp > 1 ? fmt::format("pp {} {} ", p.pp, p.schedule) : "", p.dp, p.tp,
                     p.sp ? " sp" : "", p.cp > 1 ? fmt::format(" cp {} {}", p.cp, p.cp_method) : "",
                     p.ep > 1 ? fmt::format(" ep {}", p.ep) : "", p.zero_stage,
                     p.shard_degree > 0 ? fmt::format(" of {}", p.shard_degree) : "", p.reduce, p.recompute) +
         (servers > 0 ? fmt::format(" servers {}", servers) : "");
}

}  // namespace athanor::train::plan
