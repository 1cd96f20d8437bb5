// The state of any layout taken over by any other, up to eight ranks: from a checkpoint on disk, and from the snapshot in memory that
// the layout before left. Nothing trains between: each layout must hold the bytes that one process has saved.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>

#include "athanor/layout/enumerate.h"
#include "support/tiers.h"
#include "train/saved_run.h"

namespace athanor::tests::resharding_test {
namespace {

constexpr int kMostRanks = 8;
constexpr int64_t kSteps = 2;
// Where the whole is not asked for.
constexpr size_t kFewLayouts = any_sanitizer ? 3 : 8, kFewOnDisk = any_sanitizer ? 4 : 24;
constexpr size_t kLayoutsInARun = 101;  // each has worlds of its own

// Heads, layers, experts, tokens and micro-batches for eight ranks of every axis.
Config wide(const std::string& family) {
  Config config = uneven(family, "adamw");
  ModelConfig& model = config.model;
  model.num_hidden_layers = 8;
  model.num_attention_heads = 24;
  model.num_key_value_heads = 24;
  model.head_dim = 2;
  model.intermediate_size = 48;
  if (model.num_experts > 0) {
    model.num_experts = 24;
    model.moe_intermediate_size = 24;
  }
  config.data.seq_len = 16;
  config.train.global_batch_size = 16;
  config.train.steps = kSteps;
  return config;
}

// Every one of `number` follows every other.
std::vector<size_t> all_pairs(size_t number) {
  std::vector<size_t> tour;
  for (size_t i = 0; i < number; ++i) {
    tour.push_back(i);
    for (size_t j = i + 1; j < number; ++j) tour.insert(tour.end(), {j, i});
  }
  return tour;
}

// Layouts that take the state over one from the other; the first has it from disk.
void expect_same_state(const Config& config, const std::vector<Layout>& layouts, const SavedRun& saved,
                       const std::string& digest) {
  std::vector<VerifySegment> segments;
  for (const Layout& layout : layouts)
    segments.push_back(
        {.config = in_layout(config, layout), .ranks = layout.world_size(), .last_step = kSteps});
  const TestFolder folder;
  std::atomic<size_t> number = 0;
  const LayoutHooks hooks{
      .begin =
          [&](Training& training, TrainState& state, World& world) {
            if (state.step == 0) going_on_from(saved).begin(training, state, world);
          },
      .end =
          [&](Training& training, TrainState& state, World& world) {
            const size_t now = number;
            const std::string path = folder.file(std::to_string(now));
            write_checkpoint_at(
                system_env(), world.all(), path,
                {.step = state.step, .state = state.to_json(), .tensors = training.tensors(), .files = {}});
            world.all().barrier("saved");
            if (world.rank() != 0) return;
            EXPECT_EQ(Checkpoint::open(system_env(), path).digest(), digest)
                << layouts[now].text() << " after "
                << (now == 0 ? std::string("disk") : layouts[now - 1].text());
            std::filesystem::remove_all(path);
            ++number;
          }};
  verify::run_layouts(
      std::move(segments), 2,
      [&](int64_t step, int64_t micro_batch, Batch& batch) { batch = make_batch(config, step, micro_batch); },
      hooks);
  EXPECT_EQ(number, layouts.size());
}

class Resharding : public testing::TestWithParam<const char*> {};

TEST_P(Resharding, EveryLayoutTakesOverFromEveryOther) {
  const Config config = wide(GetParam());
  const std::vector<Layout> legal = enumerate(config, kMostRanks).legal;
  std::vector<size_t> chosen = spanning_sample(legal, 1, 1);
  if (whole_walks() == 0) {  // spread over them: the first are those of one rank
    const size_t apart = chosen.size() / kFewLayouts;
    ASSERT_GT(apart, 0U);
    for (size_t i = 0; i < kFewLayouts; ++i) chosen[i] = chosen[(i + 1) * apart - 1];
    chosen.resize(kFewLayouts);
  }
  const SavedRun saved = save_after(config, kSteps);
  const std::string digest = Checkpoint::open(system_env(), saved.folder).digest();
  const std::vector<size_t> tour = all_pairs(chosen.size());
  const size_t each = std::max<size_t>(1, static_cast<size_t>(whole_walks()));
  for (size_t begin = 0, run = 0; begin + 1 < tour.size(); begin += kLayoutsInARun - 1, ++run) {
    if (run % each != 0) continue;
    std::vector<Layout> layouts;
    for (size_t i = begin; i < std::min(begin + kLayoutsInARun, tour.size()); ++i)
      layouts.push_back(legal[chosen[tour[i]]]);
    expect_same_state(config, layouts, saved, digest);
  }
}

// From disk each by itself.
TEST_P(Resharding, EveryLayoutLoadsACheckpoint) {
  const Config config = wide(GetParam());
  const std::vector<Layout> legal = enumerate(config, kMostRanks).legal;
  const SavedRun saved = save_after(config, kSteps);
  const std::string digest = Checkpoint::open(system_env(), saved.folder).digest();
  const std::vector<size_t> chosen = spanning_sample(legal, 1, 2);
  const size_t each = whole_walks() > 0 ? static_cast<size_t>(whole_walks()) : 1;
  const size_t count = whole_walks() > 0 ? legal.size() : std::min(chosen.size(), kFewOnDisk);
  for (size_t i = 0; i < count; i += each)
    expect_same_state(config, {legal[whole_walks() > 0 ? i : chosen[i]]}, saved, digest);
}

INSTANTIATE_TEST_SUITE_P(Families, Resharding, testing::Values("llama", "gpt2", "moe"),
                         [](const auto& family) { return std::string(family.param); });

}  // namespace
}  // namespace athanor::tests::resharding_test
