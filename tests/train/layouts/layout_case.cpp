#include "train/layouts/layout_case.h"

#include <fmt/format.h>

#include <bit>
#include <map>

#include "athanor/config/print.h"
#include "athanor/engine/memory_plan.h"
#include "support/tiers.h"
#include "train/saved_run.h"

namespace athanor::tests {

Config in_axes(Config config, const Axes& axes) {
  ParallelConfig& p = config.parallel;
  p.dp = axes.dp;
  p.tp = axes.tp;
  p.pp = axes.pp;
  p.cp = axes.cp;
  p.ep = axes.ep;
  p.zero_stage = axes.zero;
  p.shard_degree = axes.shard;
  p.sp = axes.sp;
  p.schedule = axes.schedule;
  p.stage_layers = axes.stage_layers;
  config.parameter_server.servers = axes.servers;
  if (axes.group > 0) config.local_sgd.group_size = axes.group;
  if (axes.recompute != nullptr) p.recompute = axes.recompute;
  if (axes.cp_method != nullptr) p.cp_method = axes.cp_method;
  if (axes.reduce != nullptr) p.reduce = axes.reduce;
  return config;
}

std::string text_of(const Axes& axes) {
  std::string text;
  const auto add = [&](const std::string& word) { text += (text.empty() ? "" : " ") + word; };
  const auto size = [&](const char* axis, int64_t count) {
    if (count > 1) add(fmt::format("{}{}", axis, count));
  };
  size("dp", axes.dp);
  size("tp", axes.tp);
  if (axes.sp) add("sp");
  size("pp", axes.pp);
  if (axes.pp > 1) add(axes.schedule);
  for (const int64_t layers : axes.stage_layers) add(fmt::format("layers{}", layers));
  size("cp", axes.cp);
  if (axes.cp_method != nullptr) add(axes.cp_method);
  size("ep", axes.ep);
  if (axes.zero > 0) add(fmt::format("zero{}", axes.zero));
  if (axes.shard > 0) add(fmt::format("of{}", axes.shard));
  if (axes.group > 0) add(fmt::format("group{}", axes.group));
  if (axes.servers > 0) add(fmt::format("servers{}", axes.servers));
  if (axes.recompute != nullptr) add(axes.recompute);
  if (axes.reduce != nullptr) add(axes.reduce);
  return text.empty() ? "alone" : text;
}

void PrintTo(const LayoutCase& row, std::ostream* out) {
  *out << row.name;
}

// GoogleTest takes letters, digits and underscores.
std::string layout_case_name(const testing::TestParamInfo<LayoutCase>& row) {
  std::string name = row.param.name;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

void LayoutTable::beside(const std::string& label, const Config& config, const Config& reference,
                         const LayoutCheck& check, const std::string& axes) {
  rows_.push_back({.name = label + " " + axes,
                   .config = config,
                   .reference = reference,
                   .check = check,
                   .first = {},
                   .left_out = left_out_,
                   .left_out_threads = left_out_threads_});
}

void LayoutTable::resumed(const std::string& label, const Config& config, const Config& first, int64_t saved,
                          const Config& reference, const LayoutCheck& check) {
  const auto text = [](const Config& of) { return text_of(of); };
  const std::string from = text(first), to = text(config);
  beside(label, config, reference, check,
         fmt::format("{} after {}{}", from, saved, to == from ? "" : " " + to));
  rows_.back().first = first;
  rows_.back().saved = saved;
}

const VerifyRun& run_once(const Config& config) {
  static std::map<std::string, VerifyRun> runs;
  const std::string key = print_config(config);
  auto found = runs.find(key);
  if (found == runs.end()) found = runs.emplace(key, run_layout(config)).first;
  return found->second;
}

namespace {

WholeTensors biases_of(const VerifyRun& run) {
  WholeTensors biases;
  for (const auto& [name, values] : run.weights)
    if (name.ends_with("router.bias")) biases[name] = values;
  return biases;
}

void expect_same_experts(const VerifyRun& got, const VerifyRun& expected, const LayoutCheck& check) {
  ASSERT_FALSE(expected.experts.empty());
  ASSERT_EQ(got.experts.size(), expected.experts.size());
  ASSERT_EQ(expected.experts.size(), expected.losses.size());
  for (size_t i = 0; i < expected.experts.size(); ++i) {
    SCOPED_TRACE("step " + std::to_string(i + 1));
    const ExpertLoad &load = got.experts[i], &of_one = expected.experts[i];
    EXPECT_EQ(load.chosen, of_one.chosen);
    EXPECT_EQ(load.layers, of_one.layers);
    EXPECT_EQ(load.drop_share, of_one.drop_share);
    if (i < check.dropping_steps) {
      EXPECT_GT(of_one.drop_share, 0.0) << "or nothing is tried here";
    }
    if (!check.expert_losses) continue;
    EXPECT_NEAR(load.aux_loss, of_one.aux_loss, 1e-6);
    EXPECT_NEAR(load.z_loss, of_one.z_loss, 1e-5 * of_one.z_loss);
  }
  EXPECT_EQ(biases_of(got), biases_of(expected));
}

void expect_same_replica_groups(const Config& config, const VerifyRun& run) {
  int64_t compared = 0;
  for (int64_t h = 0; h < config.parallel.dp / config.local_sgd.group_size; ++h)
    for (const auto& [name, values] : run.weights) {
      if (!name.starts_with("model.")) continue;
      EXPECT_EQ(run.weights.at("replica." + std::to_string(h) + "." + name), values) << name << " of " << h;
      ++compared;
    }
  EXPECT_GT(compared, 0);
}

}  // namespace

void LayoutTest::SetUp() {
  const LayoutCase& row = GetParam();
  if (row.left_out != nullptr) LEAVE_OUT_UNDER(any_sanitizer, row.left_out);
  if (row.left_out_threads != nullptr) LEAVE_OUT_UNDER(thread_sanitizer, row.left_out_threads);
}

TEST_P(LayoutTest, EqualsItsReference) {
  const LayoutCase& row = GetParam();
  const LayoutCheck& check = row.check;
  const VerifyRun& expected = run_once(row.reference);
  VerifyRun got = run_layout(row.config);
  if (check.twice) {
    EXPECT_TRUE(compare(run_layout(row.config), got).bitwise) << "two runs of one layout";
  }
  if (check.more_state)
    std::erase_if(got.state, [&](const auto& part) { return !expected.state.contains(part.first); });
  if (check.rounded_norms > 0.0) {
    EXPECT_LE(compare(got, expected).grad_norm.value, check.rounded_norms);
    got.grad_norms = expected.grad_norms;
  }
  const LayoutDifference found = compare(got, expected);
  if (check.near > 0.0) {
    EXPECT_EQ(got.losses[0], expected.losses[0]);
    EXPECT_NEAR(got.losses.back(), expected.losses.back(), check.near * expected.losses.back());
    EXPECT_NE(got.weights, expected.weights) << "nothing was compressed";
  } else if (check.losses > 0.0) {
    EXPECT_LE(found.loss.value, check.losses);
    EXPECT_LE(found.grad_norm.value, check.norms);
  } else if (check.tolerance > 0.0) {
    EXPECT_LE(found.worst(), check.tolerance) << found.gradient.where << " " << found.weight.where;
  } else {
    EXPECT_TRUE(found.bitwise) << found.worst();
  }
  if (check.first_weights) {
    EXPECT_EQ(got.first_weights, expected.first_weights);
  }
  if (check.no_flips) {
    EXPECT_EQ(found.routing_flips, 0);
  }
  if (check.expert_counts) expect_same_experts(got, expected, check);
  if (check.replica_groups) expect_same_replica_groups(row.config, got);
  if (check.compresses) {
    Config plain = row.config;
    plain.compression.method = "none";
    EXPECT_NE(run_once(plain).weights, got.weights) << "nothing was compressed";
  }
}

TEST_P(ResumeTest, GoesOnToTheSameBits) {
  const LayoutCase& row = GetParam();
  const VerifyRun& whole = run_once(row.reference);
  const SavedRun saved = save_after(row.first, row.saved);
  Checkpoint::open(system_env(), saved.folder).verify();
  const VerifyRun rest = resume(row.config, saved);
  if (row.check.losses > 0.0) {
    EXPECT_NEAR(rest.losses.back(), whole.losses.back(), row.check.losses * whole.losses.back());
    return;
  }
  const auto last = [&](const std::vector<double>& steps) {
    std::vector<uint64_t> bits;  // an overflow's norm is no number
    for (auto step = steps.end() - std::ssize(rest.losses); step != steps.end(); ++step)
      bits.push_back(std::bit_cast<uint64_t>(*step));
    return bits;
  };
  EXPECT_EQ(std::ssize(rest.losses), row.config.train.steps - row.saved);
  EXPECT_EQ(last(rest.losses), last(whole.losses));
  EXPECT_EQ(last(rest.grad_norms), last(whole.grad_norms));
  EXPECT_EQ(rest.weights, whole.weights);
  EXPECT_EQ(rest.state, whole.state);
}

// Law 7: what is planned before the start is what a run comes to hold, by category.
TEST_P(PlanTest, IsTheMeasuredPeakOfEachRank) {
  const LayoutCase& row = GetParam();
  const auto expect_planned = [&](Training& training, TrainState&, World& world) {
    const MemoryUsage plan = plan_memory({row.config, 2, world.rank(), world.size()}).usage,
                      measured = training.arena.usage();
    if (!row.check.plan_of_most) {
      EXPECT_EQ(plan.peak_total, measured.peak_total) << "rank " << world.rank();
      EXPECT_EQ(plan.peak, measured.peak) << "rank " << world.rank();
      return;
    }
    EXPECT_LE(measured.peak_total, plan.peak_total) << "rank " << world.rank();
    for (const Category kept : {Category::parameters, Category::gradients, Category::optimizer})
      EXPECT_EQ(plan.peak[static_cast<size_t>(kept)], measured.peak[static_cast<size_t>(kept)])
          << name_of(kept) << " of rank " << world.rank();
  };
  run_layout(row.config, {.end = expect_planned});
}

}  // namespace athanor::tests
