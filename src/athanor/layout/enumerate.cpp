#include "athanor/layout/enumerate.h"

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

namespace athanor::layout {
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

// The pairs of values of each row, as numbers that are common to all rows.
std::vector<std::vector<size_t>> pairs_of(const std::vector<std::vector<std::string>>& rows) {
  std::map<std::string, size_t> value_numbers;
  std::map<std::pair<size_t, size_t>, size_t> pair_numbers;
  std::vector<std::vector<size_t>> pairs;
  for (const std::vector<std::string>& row : rows) {
    std::vector<size_t> values;
    for (const std::string& value : row)
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

Enumeration enumerate(const Config& config, int most_ranks) {
  Enumeration all;
  Config tried = config;
  tried.origins.clear();  // messages must not name where a setting came from
  for (const ParallelConfig& asked : every_layout(config, most_ranks)) {
    tried.parallel = asked;
    const int64_t ranks = asked.pp * asked.dp * asked.cp * asked.tp + config.parameter_server.servers;
    try {
      validate(tried);
      all.legal.push_back(make_layout(tried, {.world_size = static_cast<int>(ranks)}));
    } catch (const ConfigError& error) {
      ++all.refused[without_numbers(error.what())];
    }
  }
  return all;
}

Config in_layout(Config config, const Layout& layout) {
  ParallelConfig& p = config.parallel;
  p.pp = layout.pp;
  p.dp = layout.dp();
  p.cp = layout.cp;
  p.tp = layout.tp;
  p.ep = layout.ep;
  p.schedule = layout.schedule;
  p.cp_method = layout.cp_method;
  p.sp = layout.sp;
  p.zero_stage = layout.zero_stage;
  p.recompute = layout.recompute;
  if (config.local_sgd.sync_interval > 0) config.local_sgd.group_size = layout.replica_group_ranks();
  return config;
}

std::vector<std::string> axis_values(const Layout& layout) {
  return {fmt::format("pp {}", layout.pp),
          layout.pp > 1 ? layout.schedule : "no schedule",
          fmt::format("dp {}", layout.dp()),
          fmt::format("tp {}", layout.tp),
          layout.sp ? "sp" : "no sp",
          layout.cp > 1 ? fmt::format("cp {} {}", layout.cp, layout.cp_method) : "cp 1",
          fmt::format("ep {}", layout.ep),
          fmt::format("zero {}", layout.zero_stage),
          fmt::format("recompute {}", layout.recompute)};
}

std::vector<size_t> spanning_sample(const std::vector<Layout>& layouts, size_t at_least, uint64_t seed) {
  std::vector<std::vector<std::string>> rows;
  for (const Layout& layout : layouts) rows.push_back(axis_values(layout));
  return spanning_rows(rows, at_least, seed);
}

std::vector<size_t> spanning_rows(const std::vector<std::vector<std::string>>& rows, size_t at_least,
                                  uint64_t seed) {
  if (rows.empty()) return {};
  const std::vector<std::vector<size_t>> pairs = pairs_of(rows);
  std::set<size_t> missing;
  for (const auto& of_row : pairs) missing.insert(of_row.begin(), of_row.end());
  std::vector<bool> is_missing(missing.size(), true);
  size_t num_missing = missing.size();
  std::vector<size_t> order(rows.size());
  const Permutation shuffled(rows.size(), RandomStream(seed, "layouts").key());
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

}  // namespace athanor::layout
