// What a module promises: names by its path, parameters in the order of declaration, hooks around its work.
#include "athanor/nn/module.h"

#include <gmock/gmock.h>

#include "athanor/nn/linear.h"
#include "nn/layer.h"

namespace athanor::tests::module_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Part : Module {
  Part(Module* parent, const std::string& name)
      : Module(parent, name),
        up(this, "up", 4, 6, true, 0.02),
        down(this, "down", 6, 4, false, 0.02),
        level(declare_state("level", {3}, Init::zeros())) {}
  Linear up, down;
  Param& level;
};

struct Root : Module {
  Root()
      : Module(nullptr, ""),
        scale(declare("scale", {4}, Init::ones())),
        blocks(this, "blocks"),
        first(new_unit(), "0"),
        second(new_unit(), "1"),
        tied((begin_unit(), this), "head", first.up.weight().param()) {}
  Module* new_unit() {
    begin_unit();
    return &blocks;
  }
  Weight& scale;
  Module blocks;
  Part first, second;
  Linear tied;

  std::vector<std::string> param_names() const {
    std::vector<std::string> names;
    for (const auto& param : params()) names.push_back(param->name());
    return names;
  }
  std::vector<std::string> uses() const {
    std::vector<std::string> names;
    for (const Weight* weight : weights()) names.push_back(weight->use());
    return names;
  }
};

TEST(Module, NamesArePathsInTheOrderOfDeclaration) {
  const Root root;
  EXPECT_EQ(root.path(), "");
  EXPECT_EQ(root.second.down.path(), "blocks.1.down");
  EXPECT_THAT(root.param_names(), ElementsAre("scale", "blocks.0.up.weight", "blocks.0.up.bias",
                                              "blocks.0.down.weight", "blocks.0.level", "blocks.1.up.weight",
                                              "blocks.1.up.bias", "blocks.1.down.weight", "blocks.1.level"));
  EXPECT_THAT(root.uses(), ElementsAre("", "blocks.0.up", "blocks.0.up", "blocks.0.down", "blocks.1.up",
                                       "blocks.1.up", "blocks.1.down", "head"));
  EXPECT_EQ(&root.first.params(), &root.params());  // the root's, wherever they are asked for
}

// A use has the unit in which it was declared, a parameter that of its first use.
TEST(Module, UnitsAreTheOrderOfDeclaration) {
  const Root root;
  std::vector<int> params, uses;
  for (const auto& param : root.params()) params.push_back(param->unit());
  for (const Weight* weight : root.weights()) uses.push_back(weight->unit());
  EXPECT_THAT(params, ElementsAre(0, 1, 1, 1, 1, 2, 2, 2, 2));
  EXPECT_THAT(uses, ElementsAre(0, 1, 1, 1, 2, 2, 2, 3));
}

TEST(Module, OwnParametersAreThoseItDeclared) {
  const Root root;
  ASSERT_EQ(root.first.own_params().size(), 1u);
  EXPECT_EQ(root.first.own_params()[0], &root.first.level);
  EXPECT_EQ(root.first.up.own_params().size(), 2u);
  EXPECT_TRUE(root.tied.own_params().empty());  // shared, not declared
  EXPECT_TRUE(root.blocks.own_params().empty());
}

TEST(Module, TwoParametersOfOneNameAreRefused) {
  Root root;
  try {
    Part again(&root.blocks, "0");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("two parameters are named 'blocks.0.up.weight'"));
  }
}

TEST(Module, ATiedParameterHasAnotherUseAndNoOtherMemory) {
  const Root root;
  const Param& table = root.first.up.weight().param();
  EXPECT_EQ(&root.tied.weight().param(), &table);
  EXPECT_NE(&root.tied.weight(), &root.first.up.weight());
  EXPECT_EQ(table.num_uses(), 2u);
}

// Of a pipeline the stage that has block 1 and the head: a parameter stays with its last use that is here.
TEST(Module, WhatIsNotKeptIsDeclaredStill) {
  Root root;
  root.keep_units([](int unit) { return unit == 2 || unit == 3; });
  EXPECT_THAT(root.param_names(), ElementsAre("blocks.0.up.weight", "blocks.1.up.weight", "blocks.1.up.bias",
                                              "blocks.1.down.weight", "blocks.1.level"));
  EXPECT_THAT(root.uses(), ElementsAre("blocks.1.up", "blocks.1.up", "blocks.1.down", "head"));
  int declared = 0;
  root.for_each_declared([&](const ParamSpec&) { ++declared; });
  EXPECT_EQ(declared, 9);
}

TEST(Module, ItsWorkIsBetweenItsHooks) {
  Engine engine;
  Root root;
  for (const auto& param : root.params()) {
    param->allocate(engine.arena, Dtype::f32, false);
    param->initialize(1);
  }
  const Tensor x = engine.random({2, 4}, "x");
  Tape tape(PassContext{});
  EXPECT_FALSE(root.first.up.leaves());
  const Floats plain = to_floats(root.first.up(tape.constant(x)).value);
  std::vector<std::string> calls;
  root.first.up.set_hooks(
      [&](const Var& in) {
        calls.push_back("enter");
        return add(in, in);
      },
      [&](const Var& out) {
        calls.push_back("leave");
        return add(out, out);
      });
  EXPECT_TRUE(root.first.up.leaves());
  const Floats doubled = to_floats(root.first.up(tape.constant(x)).value);
  EXPECT_THAT(calls, ElementsAre("enter", "leave"));
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_FLOAT_EQ(doubled[i], 4.0f * plain[i]);  // its bias is zero
  // A sum behind it is made as the product is written only where nothing else happens to the product.
  const Var h = tape.constant(engine.random({2, 6}, "h"));
  const Floats sum = to_floats(root.first.up.add_to(h, tape.constant(x)).value), held = to_floats(h.value);
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_FLOAT_EQ(sum[i], held[i] + doubled[i]);
}

}  // namespace
}  // namespace athanor::tests::module_test
