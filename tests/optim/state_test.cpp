// Where and in which form the state of an optimizer is kept: on disk it has the bits of memory, in 8 bits those of any
// cut into shards, and a disk that fails is named.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "athanor/optim/optimizer.h"
#include "athanor/store/disk_records.h"
#include "support/engine.h"
#include "support/scratch_env.h"
#include "support/temporary_folder.h"

namespace athanor::tests::state_test {
namespace {

enum class Form { f32, bits8 };
enum class Place { memory, disk };

std::string folder() {
  return temporary_path("optimizer_state");
}

// Two matrices, one of more than a piece, and a vector, updated some times.
struct StateFixture {
  StateFixture(const std::string& name, Dtype dtype, Form form, Place place) {
    params.push_back(std::make_unique<Param>("large", Shape{3, 100001}, Init::normal(0.5)));
    params.push_back(std::make_unique<Param>("small", Shape{5, 7}, Init::normal(0.5)));
    params.push_back(std::make_unique<Param>("vector", Shape{300}, Init::normal(0.5)));
    OptimizerStateOptions options;
    if (place == Place::disk) options.records = std::make_unique<DiskRecords>(env, folder(), "the state");
    if (form == Form::bits8) options.eight_bits = [](const ParamSpec& param) { return param.is_matrix(); };
    optimizer = make_optimizer({.name = name}, params, std::move(options));
    for (const auto& param : params) param->allocate(engine.arena, dtype, place == Place::memory);
    optimizer->allocate(engine.arena);
    for (const auto& param : params) param->initialize(3);
  }
  void step(int64_t number) {
    std::map<const Param*, Tensor> grads;
    for (const auto& param : params)
      grads[param.get()] = engine.random(param->shape(), param->name() + std::to_string(number));
    optimizer->step([&](Param& param) -> const Tensor& { return grads.at(&param); },
                    {.update = number, .lr = 0.01, .grad_scale = 0.5});
  }
  // Everything that a checkpoint would hold, and the values computed with.
  std::vector<float> all() {
    std::vector<float> all;
    const auto append = [&](int64_t count, const auto& read) {
      std::vector<float> values(static_cast<size_t>(count));
      read(values.data());
      all.insert(all.end(), values.begin(), values.end());
    };
    for (const auto& param : params) {
      append(param->numel(), [&](float* to) { param->load(to); });
      append(param->numel(), [&](float* to) { std::ranges::copy(to_floats(param->value()), to); });
    }
    for (const auto& state : optimizer->states())
      append(state.param->numel(), [&](float* to) {  // in two parts of odd sizes
        state.read(0, 11, to);
        state.read(11, state.param->numel() - 11, to + 11);
      });
    return all;
  }
  uint64_t state_bytes() const {
    return engine.arena.usage().current[static_cast<size_t>(Category::optimizer)];
  }

  Engine engine{2};
  ScratchEnv env;
  std::vector<std::unique_ptr<Param>> params;
  std::unique_ptr<Optimizer> optimizer;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(OptimizerState, OnDiskHasTheBitsOfMemory) {
  for (const char* name : {"adamw", "sgd"})
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16})
      for (const Form form : {Form::f32, Form::bits8}) {
        StateFixture memory(name, dtype, form, Place::memory), disk(name, dtype, form, Place::disk);
        EXPECT_TRUE(same_bits(memory.all(), disk.all()));
        for (int64_t step = 1; step <= 3; ++step) memory.step(step), disk.step(step);
        EXPECT_TRUE(same_bits(memory.all(), disk.all())) << name << name_of(dtype);
        EXPECT_EQ(disk.state_bytes(), 0u);
      }
}

TEST(OptimizerState, GoesToACheckpointAndComesBack) {
  for (const char* name : {"adamw", "sgd"})
    for (const Form form : {Form::f32, Form::bits8})
      for (const Place place : {Place::memory, Place::disk}) {
        StateFixture through(name, Dtype::bf16, form, Place::memory), stopped(name, Dtype::bf16, form, place);
        for (int64_t step = 1; step <= 2; ++step) through.step(step), stopped.step(step);
        StateFixture resumed(name, Dtype::bf16, form, place);
        for (size_t p = 0; p < resumed.params.size(); ++p) {
          std::vector<float> values(static_cast<size_t>(resumed.params[p]->numel()));
          stopped.params[p]->load(values.data());
          resumed.params[p]->store_whole(values.data());
        }
        const auto from = stopped.optimizer->states(), to = resumed.optimizer->states();
        for (size_t s = 0; s < from.size(); ++s) {
          std::vector<float> values(static_cast<size_t>(from[s].param->numel()));
          from[s].read(0, from[s].param->numel(), values.data());
          to[s].write(values.data(), to[s].param->numel());
        }
        through.step(3), resumed.step(3);
        EXPECT_TRUE(same_bits(through.all(), resumed.all())) << name;
      }
}

TEST(OptimizerState, OfEightBitsTakesTwoBytesAndScales) {
  StateFixture wide("adamw", Dtype::f32, Form::f32, Place::memory),
      narrow("adamw", Dtype::f32, Form::bits8, Place::memory);
  const auto rounded = [](uint64_t bytes) { return (bytes + 63) / 64 * 64; };
  const uint64_t large = 300003, piece = OptimizerState::kPieceElements, rest = large - piece;
  const auto coded = [&](uint64_t n) { return 2 * rounded(n + (n + 255) / 256 * 4); };
  EXPECT_EQ(wide.state_bytes(), 2 * (rounded(large * 4) + rounded(35 * 4) + rounded(300 * 4)));
  EXPECT_EQ(narrow.state_bytes(), coded(piece) + coded(rest) + coded(35) + 2 * rounded(300 * 4));
  EXPECT_LT(static_cast<double>(narrow.state_bytes()) / static_cast<double>(wide.state_bytes()), 0.26);
}

TEST(OptimizerState, OfEightBitsIsNearThatOfThirtyTwo) {
  for (const char* name : {"adamw", "sgd"}) {
    StateFixture wide(name, Dtype::f32, Form::f32, Place::memory),
        narrow(name, Dtype::f32, Form::bits8, Place::memory);
    const std::vector<float> start = to_floats(wide.params[0]->master());
    for (int64_t step = 1; step <= 10; ++step) wide.step(step), narrow.step(step);
    double moved = 0.0, apart = 0.0;
    const std::vector<float> a = to_floats(wide.params[0]->master()),
                             b = to_floats(narrow.params[0]->master());
    for (size_t i = 0; i < a.size(); ++i) {
      moved += std::pow(double{a[i]} - double{start[i]}, 2);
      apart += std::pow(double{a[i]} - double{b[i]}, 2);
    }
    EXPECT_GT(apart, 0.0);
    EXPECT_LT(std::sqrt(apart / moved), 0.05) << name;
    EXPECT_EQ(to_floats(wide.params[2]->master()), to_floats(narrow.params[2]->master()));  // keeps f32
  }
}

TEST(OptimizerState, OfEightBitsHasTheSameBitsInShards) {
  constexpr int64_t kColumns = 20 * kQuantizeBlock + 100, kCut = 7 * kQuantizeBlock;
  Engine engine;
  ScratchEnv env;
  const auto run = [&](std::vector<FlatRange> ranges) {
    std::vector<float> all;
    for (const FlatRange& range : ranges) {
      struct Whole : ValueSource {
        void need(const ParamStorage&) override {}
        void changed(const ParamStorage&) override {}
      } source;
      std::vector<std::unique_ptr<Param>> params;
      params.push_back(std::make_unique<Param>("w", Shape{1, kColumns}, Init::normal(0.5)));
      Param& param = *params[0];
      param.keep(range, empty(engine.arena, {range.count()}, Dtype::bf16, Category::parameters), &source);
      param.allocate(engine.arena, Dtype::bf16, true);
      param.initialize(3);
      auto optimizer = make_optimizer(
          {}, params, {.records = nullptr, .eight_bits = [](const ParamSpec&) { return true; }});
      optimizer->allocate(engine.arena);
      for (int64_t step = 1; step <= 3; ++step) {
        const Tensor grad =
            engine.random({kColumns}, "g" + std::to_string(step)).flat(range.first, range.count());
        optimizer->step([&](Param&) -> const Tensor& { return grad; }, {.update = step, .lr = 0.01});
      }
      const std::vector<float> part = to_floats(param.master());
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  };
  EXPECT_TRUE(same_bits(run({{0, kColumns}}), run({{0, kCut}, {kCut, kColumns}})));
  // A cut in the middle of a block gives other blocks, and so other bits.
  EXPECT_FALSE(same_bits(run({{0, kColumns}}), run({{0, kCut + 100}, {kCut + 100, kColumns}})));
}

TEST(OptimizerState, NamesTheStateThatADiskSpoils) {
  StateFixture disk("adamw", Dtype::bf16, Form::f32, Place::disk);
  disk.step(1);
  disk.env.faults.flip_write =
      disk.env.faults.writes + 1;  // of the next step: the first piece's second state
  disk.step(2);
  try {
    disk.step(3);
    FAIL();
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("the state: adam.v of 'large' [0, 262144) came back changed"),
              std::string::npos)
        << error.what();
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder()));
}

TEST(OptimizerState, NamesAFullDiskBeforeAnythingIsLost) {
  struct Full : ScratchEnv {
    Full() { faults.full = true; }
  } env;
  Engine engine;
  std::vector<std::unique_ptr<Param>> params;
  params.push_back(std::make_unique<Param>("w", Shape{4, 4}, Init::normal(0.5)));
  params[0]->allocate(engine.arena, Dtype::f32, true);
  params[0]->initialize(3);
  const std::vector<float> before = to_floats(params[0]->master());
  auto optimizer =
      make_optimizer({}, params, {.records = std::make_unique<DiskRecords>(env, folder(), "it")});
  EXPECT_THROW(optimizer->allocate(engine.arena), IoError);
  EXPECT_EQ(to_floats(params[0]->master()), before);
}

}  // namespace
}  // namespace athanor::tests::state_test
