// What a table makes of a model's parameters, and what it refuses.
#include "athanor/parallel/tensor/sharding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "athanor/comm/shm/thread.h"
#include "athanor/nn/embedding.h"
#include "athanor/nn/linear.h"
#include "athanor/parallel/tensor/collective_ops.h"
#include "athanor/parallel/tensor/tensor_parallel.h"
#include "support/engine.h"

namespace athanor::tests::sharding_test {
namespace {

struct Layer : Module {
  Layer(Module* parent, const std::string& name)
      : Module(parent, name), up(this, "up", 6, 8, true, 0.5), down(this, "down", 8, 6, true, 0.5) {}
  Linear up, down;
};

struct Net : Module {
  Net()
      : Module(nullptr, ""),
        embed(this, "embed", 7, 6, 0.5),
        layers(this, "layers"),
        first(&layers, "0"),
        second(&layers, "1") {}
  TokenEmbedding embed;
  Module layers;
  Layer first, second;
};

const Sharding kTable = {{.module = "embed", .split = Split::vocabulary, .output = reduce_from},
                         {.module = "layers.*", .input = copy_to, .output = reduce_from},
                         {.module = "layers.*.up", .split = Split::column},
                         {.module = "layers.*.down", .split = Split::row}};

const Param& param(const Net& net, const std::string& name) {
  for (const auto& each : net.params())
    if (each->name() == name) return *each;
  throw Error("no parameter " + name);
}

void with_ranks(int ranks, const std::function<void(Group&, Engine&, Net&)>& body) {
  const auto groups = make_thread_groups(ranks);
  run_ranks(groups, [&](Group& group) {
    Engine engine;  // outlives what lies in its arena
    Net net;
    body(group, engine, net);
  });
}

TEST(Sharding, CutsWhatTheTableNames) {
  with_ranks(2, [](Group& group, Engine&, Net& net) {
    apply_sharding(net, kTable, group);
    const int64_t r = group.rank();
    EXPECT_EQ(param(net, "layers.1.up.weight").box(), (Box{{4 * r, 0}, {4, 6}}));
    EXPECT_EQ(param(net, "layers.1.up.bias").box(), (Box{{4 * r}, {4}}));
    EXPECT_EQ(param(net, "layers.0.down.weight").box(), (Box{{0, 4 * r}, {6, 4}}));
    const Param& bias = param(net, "layers.0.down.bias");
    EXPECT_EQ(bias.shape(), Shape{6});
    EXPECT_TRUE(bias.shards().at(0).partial);
    EXPECT_EQ(bias.is_first_copy(), r == 0);
    const Param& table = param(net, "embed.weight");
    EXPECT_EQ(table.shape(), (Shape{4, 6}));
    EXPECT_EQ(table.box(), (Box{{4 * r, 0}, {4 - r, 6}}));
    EXPECT_EQ(table.is_padded(), r == 1);
  });
}

TEST(Sharding, AGroupOfOneChangesNothing) {
  Net net;
  const auto group = make_single_group();
  apply_sharding(net, kTable, *group);
  for (const auto& each : net.params()) {
    EXPECT_TRUE(each->shards().empty());
    EXPECT_EQ(each->shape(), each->whole_shape());
  }
}

TEST(Sharding, InitialValuesAreThoseOfTheWhole) {
  Engine engine;
  Net serial;
  for (const auto& each : serial.params()) {
    each->allocate(engine.arena, Dtype::f32, true);
    each->initialize(9);
  }
  for (const int ranks : {2, 4, 8})
    with_ranks(ranks, [&](Group& group, Engine& own, Net& net) {
      apply_sharding(net, kTable, group);
      for (size_t i = 0; i < net.params().size(); ++i) {
        Param& part = *net.params()[i];
        part.allocate(own.arena, Dtype::bf16, true);
        part.initialize(9);
        std::vector<float> values(static_cast<size_t>(part.box().extent.numel()));
        part.load(values.data());
        const auto whole = to_floats(serial.params()[i]->value());
        BoxRuns(part.whole_shape(), part.box())
            .walk(0, part.box().extent.numel(), [&](int64_t in_box, int64_t in_whole, int64_t count) {
              for (int64_t k = 0; k < count; ++k)
                ASSERT_EQ(values[static_cast<size_t>(in_box + k)], whole[static_cast<size_t>(in_whole + k)]);
            });
        // Padding is zero, and stays so whatever is stored.
        part.store_whole(whole.data());
        std::vector<float> again(values.size());
        part.load(again.data());
        EXPECT_EQ(again, values);
        double sum = 0.0, real = 0.0;
        for (const float value : to_floats(part.master())) sum += std::abs(double{value});
        for (const float value : values) real += std::abs(double{value});
        EXPECT_EQ(sum, real);
      }
    });
}

TEST(Sharding, PartialGradientsAreSummedOverTheirCopies) {
  with_ranks(4, [](Group& group, Engine& engine, Net& net) {
    // Two units for four ranks: neighbours share one.
    apply_sharding(net,
                   {{.module = "layers.0.up", .split = Split::grouped, .unit = 4},
                    {.module = "layers.0.down", .split = Split::first}},
                   group);
    std::map<const Param*, Tensor> gradients;
    for (const auto& each : net.params()) {
      Tensor gradient = zeros(engine.arena, each->shape(), Dtype::f32, Category::gradients);
      for (int64_t i = 0; i < gradient.numel(); ++i)
        gradient.data<float>()[i] = static_cast<float>(i + 100 * (group.rank() + 1));
      gradients[each.get()] = gradient;
    }
    sum_partial_gradients(
        net.params(), [&](Param& each) -> const Tensor& { return gradients.at(&each); }, group);
    const auto factor = [&](const std::string& name) {
      return to_floats(gradients.at(&param(net, name)))[3];
    };
    const int r = group.rank();
    EXPECT_EQ(factor("layers.1.up.weight"), 3.0f + 100.0f * static_cast<float>(r + 1)) << "not partial";
    EXPECT_EQ(factor("layers.0.down.weight"), 12.0f + 1000.0f);
    EXPECT_EQ(factor("layers.0.up.bias"), 6.0f + (r < 2 ? 300.0f : 700.0f));
  });
}

std::string refusal_of_table(int ranks, const Sharding& table) {
  std::string message;
  with_ranks(ranks, [&](Group& group, Engine&, Net& net) {
    try {
      apply_sharding(net, table, group);
    } catch (const Error& error) {
      if (group.rank() == 0) message = error.what();
    }
  });
  return message;
}

TEST(Sharding, RefusesByName) {
  EXPECT_EQ(refusal_of_table(3, {{.module = "layers.*.up", .split = Split::column}}),
            "sharding: 'layers.0.up.weight' [8,6]: got 8 groups of 1 rows for 3 ranks, expected a number of "
            "ranks that divides them");
  EXPECT_EQ(refusal_of_table(2, {{.module = "layers.1.up", .split = Split::column, .unit = 3}}),
            "sharding: 'layers.1.up.weight' [8,6]: got 8 outputs, expected a multiple of 3");
  EXPECT_EQ(refusal_of_table(4, {{.module = "layers.1.up", .split = Split::column, .unit = 4}}),
            "sharding: 'layers.1.up.weight' [8,6]: got 2 groups of 4 rows for 4 ranks, expected a number of "
            "ranks that divides them");
  EXPECT_EQ(refusal_of_table(3, {{.module = "layers.1.down", .split = Split::row}}),
            "param: 'layers.1.down.weight': dimension 1 of [6,8] does not divide by 3");
  EXPECT_EQ(refusal_of_table(2, {{.module = "layers.*.gate", .split = Split::column}}),
            "sharding: the model has no module 'layers.*.gate'");
  EXPECT_EQ(refusal_of_table(2, {{.module = "layers.*"}, {.module = "layers.0"}}),
            "sharding: the module 'layers.0' is named by 'layers.*' and by 'layers.0'");
  Engine engine;
  Param late("late", {4, 4}, Init::ones());
  late.allocate(engine.arena, Dtype::f32, false);
  EXPECT_THROW(late.shard({.dim = 0, .axis = "tp", .rank = 0, .size = 2}), Error);
}

}  // namespace
}  // namespace athanor::tests::sharding_test
