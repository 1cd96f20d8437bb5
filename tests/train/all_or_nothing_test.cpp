// A failure at any call between ranks leaves all of a step or none of it, on every rank: the next segment goes on from
// there, in the same process, and the whole has the bits of a training that was never disturbed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iostream>

#include "athanor/base/philox.h"
#include "support/tiers.h"
#include "train/layouts/layout_case.h"
#include "train/planted_failures.h"
#include "train/sampled_layouts.h"

namespace athanor::tests::all_or_nothing_test {
namespace {

// What the vote of a step does not cover (engine/step.h): exchanges after it, and what exchanges before it keep.
bool needs_slots(const Config& config) {
  const CompressionConfig& c = config.compression;
  return config.local_sgd.sync_interval > 0 || c.method == "onebit-adam" || c.method == "powersgd" ||
         (c.method != "none" && c.error_feedback);
}

std::string why_excluded(const Config& config) {
  if (config.parameter_server.servers > 0) return "parameter servers commit by their push log";
  if (needs_slots(config) && (config.offload.optimizer != "memory" || config.offload.parameters != "memory"))
    return "state that is offloaded has no slots";
  return "";
}

Config with_slots(Config config) {
  if (needs_slots(config)) config.snapshot.mode = "slots";
  return config;
}

void expect_all_or_nothing(const Config& config, const UndisturbedRun& whole, PlantedFailure at) {
  const BrokenRun broken(config, at);
  ASSERT_FALSE(broken.calls.failed_call().empty()) << "rank " << at.rank << ", call " << at.call;
  EXPECT_EQ(broken.run.losses.size(), whole.run.losses.size())
      << "rank " << at.rank << ", call '" << broken.calls.failed_call() << "'";
  EXPECT_TRUE(compare(broken.run, whole.run).bitwise)
      << "rank " << at.rank << ", call '" << broken.calls.failed_call() << "'";
}

struct Case {
  std::string family, optimizer;
  Axes axes;
  std::function<void(Config& config)> change = [](Config&) {};
};

void PrintTo(const Case& row, std::ostream* out) {
  *out << row.family << " " << row.optimizer << " " << text_of(row.axes);
}

class AllOrNothing : public testing::TestWithParam<Case> {};

TEST_P(AllOrNothing, AFailureAtEachCallOfAStepLeavesAllOfItOrNone) {
  Config config = in_axes(uneven(GetParam().family, GetParam().optimizer), GetParam().axes);
  if (GetParam().axes.ep > 1) {
    config.train.global_batch_size = 8;  // as many micro-batches on each rank
    config.model.num_experts = 6;
  }
  GetParam().change(config);
  const UndisturbedRun whole(config);
  ASSERT_TRUE(compare(whole.run, run_layout(config, LayoutHooks{}, kStepsAround)).bitwise);
  // Under a sanitizer every eleventh call, and so in turn those of all kinds.
  const int64_t stride = any_sanitizer ? 11 : 1;
  int failures = 0;
  for (int rank = 0; rank < ranks_of(config); ++rank) {
    const auto [first, last] = whole.of_step(rank, 2);
    ASSERT_GT(last, first);
    for (int64_t call = first; call < last; call += stride, ++failures)
      expect_all_or_nothing(config, whole, {rank, call});
  }
  RecordProperty("planted_failures", failures);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, AllOrNothing,
    testing::Values(Case{"llama", "adamw", {.dp = 2}}, Case{"gpt2", "sgd", {.dp = 3, .zero = 1}},
                    Case{"llama", "adamw", {.dp = 2, .zero = 2}}, Case{"gpt2", "adamw", {.dp = 2, .zero = 3}},
                    Case{"gpt2", "sgd", {.tp = 2}}, Case{"llama", "adamw", {.dp = 2, .tp = 2, .sp = true}},
                    Case{"gpt2", "adamw", {.pp = 2}}, Case{"llama", "sgd", {.dp = 2, .pp = 2, .zero = 1}},
                    Case{"llama", "adamw", {.cp = 2, .cp_method = "ring"}},
                    Case{"moe", "adamw", {.dp = 2, .ep = 2}}));

// In what follows only the slots have a state that is whole after some of the failures.
void with_onebit_adam(Config& config) {
  config.snapshot.mode = "slots";
  config.compression.method = "onebit-adam";
  config.compression.warmup_steps = 1;
}

void with_outer_steps(Config& config) {
  config.snapshot.mode = "slots";
  config.local_sgd.sync_interval = 2;
  config.local_sgd.outer_momentum = 0.9;
}

void with_powersgd(Config& config) {
  config.snapshot.mode = "slots";
  config.compression.method = "powersgd";
}

void with_powersgd_and_copies(Config& config) {
  with_powersgd(config);
  config.snapshot.mode = "copy";
}

INSTANTIATE_TEST_SUITE_P(Slots, AllOrNothing,
                         testing::Values(Case{"llama", "adamw", {.dp = 2}, with_outer_steps},
                                         Case{"gpt2", "adamw", {.dp = 2}, with_onebit_adam},
                                         Case{"llama", "sgd", {.dp = 2}, with_powersgd},
                                         Case{"gpt2", "sgd", {.dp = 2}, with_powersgd_and_copies}));

// The outer weights, too, are in the snapshot from which the first step starts.
TEST(FirstStep, AFailureInItsOuterStepGoesBackToTheBeginning) {
  for (const char* mode : {"slots", "copy"}) {
    Config config = in_axes(uneven("llama", "adamw"), {.dp = 2});
    with_outer_steps(config);
    config.snapshot.mode = mode;
    config.local_sgd.sync_interval = 1;
    const UndisturbedRun whole(config);
    const auto [first, last] = whole.of_step(1, 1);
    const int64_t stride = any_sanitizer ? 5 : 1;
    for (int64_t call = first; call < last; call += stride) expect_all_or_nothing(config, whole, {1, call});
  }
}

// The calls of step 2 at which failures are planted: all, or one of any rank while the gradients are made and one near the
// vote.
std::vector<PlantedFailure> calls_to_fail(const UndisturbedRun& whole, int ranks, uint64_t number) {
  constexpr int64_t kNearTheVote = 8;
  const RandomStream stream(1, "failures");
  std::vector<PlantedFailure> planted;
  const auto draw = [&](uint64_t what, int64_t of) {
    return static_cast<int64_t>(stream.word(what, number) % static_cast<uint64_t>(of));
  };
  if (const int64_t each = whole_walks(); each > 0) {
    for (int rank = 0; rank < ranks; ++rank) {
      const auto [first, last] = whole.of_step(rank, 2);
      for (int64_t call = first + draw(static_cast<uint64_t>(rank), each); call < last; call += each)
        planted.push_back({rank, call});
    }
    return planted;
  }
  const int making = static_cast<int>(draw(0, ranks)), voting = static_cast<int>(draw(1, ranks));
  const auto [first, end] = whole.of_step(making, 2);
  planted.push_back({making, first + draw(2, end - first)});
  const auto [begin, last] = whole.of_step(voting, 2);
  planted.push_back({voting, last - 1 - draw(3, std::min(kNearTheVote, last - begin))});
  return planted;
}

// A part of a sample, so that each case is short.
struct SamplePart {
  const char* family;
  size_t part, parts;
};
void PrintTo(const SamplePart& part, std::ostream* out) {
  *out << fmt::format("{}_{}_of_{}", part.family, part.part + 1, part.parts);
}

class SampledAllOrNothing : public testing::TestWithParam<SamplePart> {};

// Layouts and features that have every value of each, two failures in each of them. Of the whole walk (support/tiers.h):
// those that have every pair of values, and a failure at each call of each rank.
TEST_P(SampledAllOrNothing, AFailureLeavesAllOfAStepOrNone) {
  LEAVE_OUT_UNDER(any_sanitizer, "samples of layouts take minutes");
  const SampledLayouts sample = sampled_layouts(GetParam().family, why_excluded);
  const testing::TestResult& result = *testing::UnitTest::GetInstance()->current_test_info()->result();
  size_t layouts = 0, failures = 0, failed = 0;
  for (uint64_t i = GetParam().part; i < sample.rows.size(); i += GetParam().parts) {
    const SampledLayout& row = sample.rows[i];
    if (!row.is_first && (whole_walks() == 0 || walks_first_alone())) continue;
    SCOPED_TRACE(row.text);
    const int parts_before = result.total_part_count();
    size_t planted = 0;
    try {
      const Config config = with_slots(row.config);
      const UndisturbedRun whole(config);
      for (const PlantedFailure& at : calls_to_fail(whole, ranks_of(config), i)) {
        expect_all_or_nothing(config, whole, at);
        ++planted;
      }
    } catch (const Failure& failure) {
      ADD_FAILURE() << failure.what();
    }
    ++layouts;
    failures += planted;
    const bool holds = result.total_part_count() == parts_before;
    failed += holds ? 0 : 1;
    if (whole_walks() > 0)
      std::cout << fmt::format("{} of {}: {} failures, {}  {}\n", i + 1, sample.rows.size(), planted,
                               holds ? "all or nothing" : "FAILED", row.text)
                << std::flush;
  }
  std::cout << fmt::format("{}: {} layouts, {} failures planted, {} layouts failed\n",
                           testing::PrintToString(GetParam()), layouts, failures, failed);
  for (const auto& [why, count] : sample.excluded)
    std::cout << fmt::format("  {} candidates left out: {}\n", count, why);
}

std::vector<SamplePart> parts_of_samples() {
  std::vector<SamplePart> all;
  for (const auto& [family, parts] : {std::pair("llama", 4), std::pair("gpt2", 12), std::pair("moe", 12)})
    for (size_t part = 0; part < static_cast<size_t>(parts); ++part)
      all.push_back({family, part, static_cast<size_t>(parts)});
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, SampledAllOrNothing, testing::ValuesIn(parts_of_samples()),
                         [](const auto& part) { return testing::PrintToString(part.param); });

}  // namespace
}  // namespace athanor::tests::all_or_nothing_test
