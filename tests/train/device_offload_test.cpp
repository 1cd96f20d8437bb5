// Offload of a device to the host's memory: the bits are those without, whenever the copies are made, and the device's
// arena has less by what is there.
#include <array>
#include <filesystem>

#include "athanor/engine/device.h"
#include "athanor/engine/host_activations.h"
#include "athanor/engine/memory_plan.h"
#include "athanor/store/host_records.h"
#include "athanor/store/memory_records.h"
#include "support/places.h"
#include "support/side_streams.h"
#include "support/temporary_folder.h"
#include "support/tiers.h"
#include "train/device_training.h"

namespace athanor::tests::device_offload_test {
namespace {

// Late: copies are made when somebody waits for them. Early: as soon as they may be.
class DeviceOffload : public testing::TestWithParam<bool> {
  SideStreams streams_{built("athanor_cuda_emulated.so"), GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Copies, DeviceOffload, testing::Bool(),
                         [](const auto& copies) { return copies.param ? "early" : "late"; });

// A device with an arena, and one of the host.
struct Bench {
  CudaQueue queue{load_cuda(built("athanor_cuda_emulated.so")), 0, nullptr};
  Arena arena{queue};
  Engine engine;
};

// Items of one to three records, of sizes in floats.
std::vector<Records::Item> add_items(Records& records) {
  std::vector<Records::Item> items;
  for (const std::vector<uint64_t>& sizes : std::vector<std::vector<uint64_t>>{
           {1000, 77}, {1}, {4095, 16, 7001}, {0, 12}, {2000}, {3}, {5, 5000}}) {
    items.emplace_back();
    for (const uint64_t size : sizes) items.back().push_back(records.add("record", size * sizeof(float)));
  }
  return items;
}

Tensor floats_of(const Tensor& bytes) {
  return view_as(bytes, 0, {bytes.numel() / static_cast<int64_t>(sizeof(float))}, Dtype::f32);
}

std::vector<float> all_of(Records& records, std::span<const Records::Item> items) {
  std::vector<float> all;
  records.stream(items, Access::read, [&](size_t, std::span<Tensor> bytes) {
    for (const Tensor& record : bytes)
      for (const float value : to_floats(floats_of(record))) all.push_back(value);
  });
  return all;
}

// Passes that write and that change every element, by kernels, with workspace between that takes any memory given back.
std::vector<float> work_on(Records& records, std::span<const Records::Item> items, Arena& arena) {
  const KernelTable& table = arena.queue().table();
  for (int pass = 0; pass < 5; ++pass)
    records.stream(
        items, pass % 3 == 0 ? Access::write : Access::update, [&](size_t item, std::span<Tensor> bytes) {
          for (const Tensor& record : bytes) {
            if (record.numel() == 0) continue;
            Tensor values = floats_of(record),
                   more = empty(arena, values.shape(), Dtype::f32, Category::workspace);
            const std::vector<float> numbers(static_cast<size_t>(values.numel()),
                                             static_cast<float>(pass * 10) + static_cast<float>(item));
            copy_from_host(more, numbers.data(), more.size_bytes());
            if (pass % 3 == 0) copy(values, more);
            table.elementwise.scale(arena.queue(), values, 1.25f);
            table.elementwise.accumulate(arena.queue(), values, more);
          }
        });
  return all_of(records, items);
}

TEST_P(DeviceOffload, RecordsAreThoseInMemory) {
  Bench bench;
  MemoryRecords in_memory;
  HostRecords on_host(bench.engine.arena);
  const auto items = add_items(in_memory);
  EXPECT_EQ(add_items(on_host), items);
  in_memory.allocate(bench.arena, Category::optimizer);
  const uint64_t before = bench.arena.usage().current_total;
  on_host.allocate(bench.arena, Category::optimizer);
  EXPECT_EQ(bench.arena.usage().current_total, before);
  EXPECT_GE(bench.engine.arena.usage().current[static_cast<size_t>(Category::optimizer)],
            19000 * sizeof(float));
  for (const float value : all_of(on_host, items)) ASSERT_EQ(value, 0.0f);
  EXPECT_EQ(work_on(on_host, items, bench.arena), work_on(in_memory, items, bench.arena));
  EXPECT_EQ(bench.arena.usage().current_total, before) << "buffers are given back";
  EXPECT_FALSE(on_host.resident(0).defined());
  on_host.stream({}, Access::update, [](size_t, std::span<Tensor>) { FAIL(); });
}

TEST_P(DeviceOffload, AVisitThatFailsLeavesTheRecordsInUse) {
  Bench bench;
  HostRecords records(bench.engine.arena);
  const auto items = add_items(records);
  records.allocate(bench.arena, Category::optimizer);
  const std::vector<float> before = work_on(records, items, bench.arena);
  const auto failing = [](size_t item, std::span<Tensor>) { check(item < 2, "this far"); };
  EXPECT_THROW(records.stream(items, Access::update, failing), Error);
  EXPECT_EQ(bench.arena.usage().current_total, 0u);
  EXPECT_EQ(all_of(records, items), before);
  EXPECT_THROW(records.add("one more", 4), Error);
}

TEST_P(DeviceOffload, ActivationsComeBackWhereTheyAreWanted) {
  Bench bench;
  HostActivations store(bench.arena, bench.engine.arena);
  const auto make = [&](int64_t count, float value) {
    Tensor x = empty(bench.arena, {count}, Dtype::f32, Category::activations);
    const std::vector<float> values(static_cast<size_t>(count), value);
    copy_from_host(x, values.data(), x.size_bytes());
    return x;
  };
  const auto put = [&](const std::vector<Tensor>& block) {
    std::vector<std::shared_ptr<Storage>> storages;
    for (const Tensor& x : block) storages.push_back(x.storage());
    return store.put(storages);
  };
  const auto is_all = [](const Tensor& x, float value) {
    const std::vector<float> values = to_floats(x);
    return std::count(values.begin(), values.end(), value) == x.numel();
  };
  std::vector<Tensor> first{make(100, 1), make(5000, 2), make(33, 3)}, second{make(2000, 4)},
      third{make(5000, 5)};
  const int64_t a = put(first), b = put(second), c = put(third);
  EXPECT_TRUE(first[0].storage()->released() && second[0].storage()->released() &&
              third[0].storage()->released());
  const Tensor workspace = make(20000, -1);  // takes what was given back
  store.get(c);
  EXPECT_TRUE(is_all(third[0], 5));
  store.drop(b);
  first.erase(first.begin() + 1);  // nobody needs it any more
  store.get(a);
  EXPECT_TRUE(is_all(first[0], 1) && is_all(first[1], 3));
  // The memory of the host is used again.
  const uint64_t there = bench.engine.arena.usage().current_total;
  const std::vector<Tensor> fourth{make(2000, 6)}, fifth{make(5000, 7)}, sixth{make(77, 8)};
  const int64_t d = put(fourth), e = put(fifth);
  EXPECT_EQ(bench.engine.arena.usage().current_total, there);
  store.drop(put(sixth));
  store.get(e);
  store.get(d);
  EXPECT_TRUE(is_all(fourth[0], 6) && is_all(fifth[0], 7));
  EXPECT_TRUE(is_all(workspace, -1));
}

TEST(DeviceOffloadOnTheCpu, IsRefused) {
  Engine engine;
  HostRecords records(engine.arena);
  EXPECT_THROW(records.allocate(engine.arena, Category::optimizer), Error);
  EXPECT_THROW(HostActivations(engine.arena, engine.arena), Error);
}

// Blocks with few tokens, as emulated norms and attention take long, and yet activations worth a transfer.
Config few_wide_tokens(const std::string& family, const std::string& compute, const std::string& optimizer) {
  Config config = tiny(family);
  config.model.num_hidden_layers = 3;
  config.model.hidden_size = 48;
  config.model.intermediate_size = 400;
  config.model.moe_intermediate_size = family == "moe" ? 200 : 0;
  config.model.head_dim = 12;
  config.precision.compute = compute;
  config.optimizer.name = optimizer;
  config.parallel.bucket_bytes = 32 << 10;
  config.train.global_batch_size = 4;
  config.train.steps = 2;
  config.train.device = "cuda";
  return config;
}

Config on_host(Config config, bool optimizer, bool activations) {
  if (optimizer) config.offload.optimizer = "host";
  if (activations) config.offload.activations = "host";
  return config;
}

uint64_t bytes_of(const std::array<uint64_t, kNumCategories>& of, Category category) {
  return of[static_cast<size_t>(category)];
}

TEST_P(DeviceOffload, ChangesNoBit) {
  LEAVE_OUT_UNDER(any_sanitizer, "whole trainings on emulated devices take minutes");
  struct Case {
    const char *family, *compute, *optimizer, *state, *recompute;
  };
  for (const auto& [family, compute, optimizer, state, recompute] :
       {Case{"llama", "f32", "adamw", "f32", "none"}, Case{"gpt2", "bf16", "sgd", "f32", "selective"},
        Case{"llama", "bf16", "adamw", "8bit", "none"},
        Case{"moe", "bf16", "adamw", "f32", "full*1,selective"}}) {
    Config config = few_wide_tokens(family, compute, optimizer);
    config.optimizer.state = state;
    config.parallel.recompute = recompute;
    const Outcome memory = run_on_devices(config, 1);
    for (const auto& [states, activations] :
         {std::pair(true, true), std::pair(true, false), std::pair(false, true)}) {
      if (std::string(compute) == "bf16" && !(states && activations)) continue;
      SCOPED_TRACE(fmt::format("{} {} {} {} {}", family, compute, optimizer, states, activations));
      const Config offloaded = on_host(config, states, activations);
      EXPECT_TRUE(same_bits(
          memory, run_on_devices(offloaded, 1, [&](const Training& training) {
            const auto there = training.host->arena.usage().peak;
            EXPECT_EQ(bytes_of(there, Category::optimizer) > 0, offloaded.offload.optimizer == "host");
            EXPECT_EQ(bytes_of(there, Category::activations) > 0, offloaded.offload.activations == "host");
          })));
    }
  }
}

// What leaves the device's arena is what the host's has: all of the optimizer's, and the activations of all blocks but
// those that are used and one more.
TEST(DeviceOffloadOnTheHost, TakesWhatTheDeviceHasLess) {
  LEAVE_OUT_UNDER(any_sanitizer, "whole trainings on emulated devices take minutes");
  for (const auto& [optimizer, compute] : {std::pair("adamw", "bf16"), std::pair("sgd", "f32")}) {
    SCOPED_TRACE(fmt::format("{} {}", optimizer, compute));
    Config config = few_wide_tokens("llama", compute, optimizer);
    config.model.num_hidden_layers = 8;
    config.train.steps = 1;
    std::array<uint64_t, kNumCategories> memory{}, device{}, host{};
    run_on_devices(config, 1, [&](const Training& training) { memory = training.arena.usage().peak; });
    config = on_host(config, true, true);
    run_on_devices(config, 1, [&](const Training& training) {
      device = training.arena.usage().peak;
      host = training.host->arena.usage().peak;
    });
    EXPECT_EQ(bytes_of(device, Category::optimizer), 0u);
    EXPECT_EQ(bytes_of(host, Category::optimizer), bytes_of(memory, Category::optimizer));
    EXPECT_EQ(bytes_of(device, Category::parameters), bytes_of(memory, Category::parameters));
    EXPECT_EQ(bytes_of(device, Category::gradients), bytes_of(memory, Category::gradients));
    // Of eight blocks' the last one's stay, and one is on its way.
    const uint64_t stored = bytes_of(host, Category::activations);
    EXPECT_LE(bytes_of(device, Category::activations),
              bytes_of(memory, Category::activations) - stored * 6 / 8);
    const MemoryPlan plan = plan_memory({config, 2});
    for (const Category category :
         {Category::parameters, Category::gradients, Category::optimizer, Category::activations})
      EXPECT_EQ(bytes_of(plan.usage.peak, category), bytes_of(device, category)) << name_of(category);
    EXPECT_EQ(plan.host_bytes, stored + bytes_of(host, Category::optimizer));
  }
}

TEST(DeviceOffloadOnTheHost, OfSeveralDevicesChangesNoBit) {
  LEAVE_OUT_UNDER(any_sanitizer, "whole trainings on emulated devices take minutes");
  Config config = few_wide_tokens("gpt2", "bf16", "adamw");
  config.parallel.reduce = "tree";
  const Outcome one = run_on_devices(config, 1);
  config = on_host(config, true, true);
  EXPECT_TRUE(same_bits(one, run_on_devices(config, 2)));
  config.parallel.zero_stage = 2;
  EXPECT_TRUE(same_bits(one, run_on_devices(config, 2)));
  config.parallel.zero_stage = 0;
  config.parallel.pp = 2;  // several micro-batches have stored blocks at a time
  EXPECT_TRUE(same_bits(one, run_on_devices(config, 2)));
}

// 8-bit state of a device is the CPU's, of gradients that are nearly so.
TEST(DeviceOffloadOnTheHost, EightBitStateIsNearTheCpus) {
  LEAVE_OUT_UNDER(any_sanitizer, "whole trainings on emulated devices take minutes");
  Config config = few_wide_tokens("llama", "f32", "adamw");
  config.optimizer.state = "8bit";
  config.train.steps = 3;
  const Outcome device = run_on_devices(config, 1);
  config.train.device = "cpu";
  const Outcome cpu = run(config, 1);
  for (size_t i = 0; i < cpu.steps.size(); ++i)
    EXPECT_NEAR(device.steps[i].loss, cpu.steps[i].loss, 1e-3 * cpu.steps[i].loss) << i;
  config.optimizer.state = "f32";
  EXPECT_FALSE(same_bits(cpu, run(config, 1)));
}

// The logical tensors of a run, whose steps begin with those of another where there are any.
std::string train_on_device(const Config& config, const std::string& from, const std::string& to,
                            int64_t last) {
  Bench bench;
  const auto world = make_single_world();
  TrainingRank rank(config, *world, bench.arena);
  Training& training = rank.training;
  training.allocate();
  TrainState state = first_state(config);
  if (from.empty()) {
    training.model->initialize(config.train.seed);
  } else {
    const Checkpoint checkpoint = Checkpoint::open(system_env(), from);
    training.load(checkpoint);
    state = TrainState::from_json(checkpoint.state());
  }
  Batch batch;
  while (state.step < last) {
    const int64_t step = state.step + 1;
    int64_t micro_batch = 0;
    training.role->step(state, [&]() -> const Batch& {
      batch = make_batch(config, step, micro_batch++);
      return batch;
    });
  }
  write_checkpoint_at(
      system_env(), *rank.groups.all, to,
      {.step = state.step, .state = state.to_json(), .tensors = training.tensors(), .files = {}});
  return Checkpoint::open(system_env(), to).digest();
}

TEST_P(DeviceOffload, ACheckpointDoesNotKnowOfIt) {
  LEAVE_OUT_UNDER(any_sanitizer, "whole trainings on emulated devices take minutes");
  const std::string folder = temporary_path(GetParam() ? "device_offload_early" : "device_offload_late");
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  for (const char* state : {"f32", "8bit"}) {
    Config memory = few_wide_tokens("gpt2", "bf16", "adamw");
    memory.optimizer.state = state;
    const Config host = on_host(memory, true, true);
    const std::string name = folder + "/" + state;
    const std::string expected = train_on_device(memory, "", name + "_through", 2);
    EXPECT_EQ(train_on_device(host, "", name + "_host", 1), train_on_device(memory, "", name + "_memory", 1))
        << state;
    EXPECT_EQ(train_on_device(host, name + "_memory", name + "_a", 2), expected) << state;
    EXPECT_EQ(train_on_device(memory, name + "_host", name + "_b", 2), expected) << state;
  }
}

}  // namespace
}  // namespace athanor::tests::device_offload_test
