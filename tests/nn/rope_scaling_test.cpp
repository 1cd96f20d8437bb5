// Scaled rotations beside figures of 50 digits (tests/golden/make_rope.py) and the ends of the ramps that models publish.
#include "athanor/nn/rope_scaling.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "athanor/base/error.h"
#include "athanor/nn/rope_table.h"
#include "nn/layer.h"

namespace athanor::tests::rope_scaling_test {
namespace {

struct Setting {
  RopeScaling scaling;
  double base;
  int64_t head_dim;

  std::vector<double> frequencies() const { return rope_frequencies(scaling, base, head_dim); }
  std::vector<double> unscaled() const { return rope_frequencies({}, base, head_dim); }
};

Setting yarn(int64_t head_dim, double base, double factor, int64_t length, bool truncate = true) {
  return {
      {.method = "yarn", .factor = factor, .original_length = length, .truncate = truncate}, base, head_dim};
}

const std::map<std::string, Setting>& settings() {
  static const std::map<std::string, Setting> all = {
      {"linear", {{.method = "linear", .factor = 4}, 1e4, 128}},
      {"ntk 4", {{.method = "ntk", .factor = 4}, 1e4, 128}},
      {"ntk 8", {{.method = "ntk", .factor = 8}, 1e4, 128}},
      {"llama3.1", {{.method = "llama3", .factor = 8, .original_length = 8192}, 5e5, 128}},
      {"llama3.2", {{.method = "llama3", .factor = 32, .original_length = 8192}, 5e5, 64}},
      {"gpt-oss", yarn(64, 150000, 32, 4096, false)},
      {"gpt-oss truncated", yarn(64, 150000, 32, 4096)},
      {"deepseek-v3", yarn(64, 1e4, 40, 4096)},
      {"qwen2.5", yarn(128, 1e6, 4, 32768)},
      {"olmo-3", yarn(128, 5e5, 8, 8192)},
  };
  return all;
}

TEST(RopeScaling, FrequenciesAreThoseOfFiftyDigits) {
  struct Case {
    const char* setting;
    size_t pair;
    double frequency;
  };
  const std::vector<Case> cases = {
      {"linear", 10, 0.059284342641541381541},
      {"linear", 63, 0.000028869549617236454492},
      {"ntk 4", 10, 0.19029830587539175275},
      {"ntk 4", 31, 0.0058377871767501132414},
      {"ntk 4", 63, 0.000028869549617236454492},
      {"ntk 8", 31, 0.0041507099618906789243},
      {"ntk 8", 63, 0.000014434774808618227246},
      {"llama3.1", 10, 0.12868737343265051483},
      {"llama3.1", 29, 0.0021665707635033586093},
      {"llama3.1", 31, 0.00085675141291963208107},
      {"llama3.1", 34, 0.00017850781276799641852},
      {"llama3.1", 35, 0.000095562123539646830199},
      {"llama3.1", 63, 3.0689259889145110891e-7},
      {"llama3.2", 15, 0.0012905479282092638184},
      {"llama3.2", 17, 0.000097082878026276722608},
      {"llama3.2", 31, 9.4183067254349098399e-8},
      {"gpt-oss", 1, 0.68904430588816327366},
      {"gpt-oss", 10, 0.019335001126540357535},
      {"gpt-oss", 15, 0.0010526021013863348554},
      {"gpt-oss", 18, 0.000038308812373753382914},
      {"gpt-oss", 31, 3.0235114281192143739e-7},
      {"gpt-oss truncated", 10, 0.01945096754405792908},
      {"gpt-oss truncated", 15, 0.0012061309690418726316},
      {"gpt-oss truncated", 31, 3.0235114281192143739e-7},
      {"deepseek-v3", 10, 0.056234132519034908039},
      {"deepseek-v3", 15, 0.0083345089510207751605},
      {"deepseek-v3", 17, 0.0035619974943291651797},
      {"deepseek-v3", 24, 0.000025},
      {"deepseek-v3", 31, 3.3338035804083100642e-6},
      {"qwen2.5", 18, 0.020535250264571460746},
      {"qwen2.5", 24, 0.0053753214907901015038},
      {"qwen2.5", 31, 0.00080295972754523030748},
      {"qwen2.5", 35, 0.00024625840690893867675},
      {"qwen2.5", 40, 0.000044456985250973070031},
      {"qwen2.5", 63, 3.1023444018792989152e-7},
      {"olmo-3", 18, 0.024955408670558692727},
      {"olmo-3", 24, 0.0050405182742530018418},
      {"olmo-3", 31, 0.00057442721763205116163},
      {"olmo-3", 34, 0.0001656130359454200436},
      {"olmo-3", 35, 0.000095562123539646830199},
      {"olmo-3", 63, 3.0689259889145110891e-7},
  };
  for (const Case& each : cases)
    EXPECT_NEAR(settings().at(each.setting).frequencies()[each.pair] / each.frequency, 1.0, 1e-12)
        << each.setting << " " << each.pair;
}

// Pairs that are kept, and pairs that turn 1 / factor times as fast.
TEST(RopeScaling, RampsBeginAndEndWhereTheModelsSay) {
  struct Case {
    const char* setting;
    int64_t kept, divided;
  };
  for (const Case& each : {Case{"llama3.1", 29, 29},
                           {"llama3.2", 15, 14},
                           {"deepseek-v3", 11, 32 - 23},
                           {"qwen2.5", 24, 64 - 40},
                           {"olmo-3", 19, 64 - 35},
                           {"gpt-oss", 9, 32 - 18},
                           {"linear", 0, 64}}) {
    const Setting& setting = settings().at(each.setting);
    const std::vector<double> scaled = setting.frequencies(), plain = setting.unscaled();
    int64_t kept = 0, divided = 0;
    for (size_t i = 0; i < plain.size(); ++i) {
      kept += scaled[i] == plain[i] ? 1 : 0;
      divided += scaled[i] == plain[i] / setting.scaling.factor ? 1 : 0;
    }
    EXPECT_EQ(kept, each.kept) << each.setting;
    EXPECT_EQ(divided, each.divided) << each.setting;
  }
}

// ntk is the plain rotation of a larger base.
TEST(RopeScaling, NtkRaisesTheBase) {
  for (const auto& [name, base] : {std::pair{"ntk 4", 40889.94243}, {"ntk 8", 82684.62264}}) {
    const std::vector<double> scaled = settings().at(name).frequencies(),
                              plain = rope_frequencies({}, base, 128);
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(scaled[i] / plain[i], 1.0, 1e-9) << name << i;
  }
  EXPECT_EQ(rope_frequencies({.method = "ntk", .factor = 4}, 1e4, 2), std::vector<double>{1.0});
}

TEST(RopeScaling, MagnitudesAreThoseOfTheModels) {
  const auto magnitude = [](const char* name) { return rope_magnitude(settings().at(name).scaling); };
  EXPECT_NEAR(magnitude("gpt-oss"), 1.3465735902799727, 1e-12);
  EXPECT_NEAR(magnitude("deepseek-v3"), 1.3688879454113936, 1e-12);
  EXPECT_NEAR(magnitude("qwen2.5"), 1.1386294361119891, 1e-12);
  EXPECT_NEAR(magnitude("olmo-3"), 1.2079441541679836, 1e-12);
  // DeepSeek has the square of it in the scale of the scores instead: 192^-0.5 m^2.
  EXPECT_NEAR(std::pow(magnitude("deepseek-v3"), 2) / std::sqrt(192.0), .1352337788608801, 1e-12);
  for (const char* name : {"linear", "ntk 4", "llama3.1"}) EXPECT_EQ(magnitude(name), 1.0) << name;
  RopeScaling own = settings().at("qwen2.5").scaling;
  own.attention_factor = 1.25;
  EXPECT_EQ(rope_magnitude(own), 1.25);
}

// What the figures are worth: the smallest slip in a setting is seen in them.
TEST(RopeScaling, AFlippedTruncateIsSeen) {
  Setting flipped = settings().at("gpt-oss");
  flipped.scaling.truncate = true;
  EXPECT_NEAR(settings().at("gpt-oss").frequencies()[10], .019335001, 5e-10);
  EXPECT_NEAR(flipped.frequencies()[10], .019450968, 5e-10);
  EXPECT_EQ(flipped.frequencies(), settings().at("gpt-oss truncated").frequencies());
}

TEST(RopeScaling, TablesAreTheFiguresToTheLastBit) {
  struct Case {
    const char* setting;
    int64_t pair, position;
    double cos, sin;
  };
  for (const Case& each : std::vector<Case>{
           {"gpt-oss", 10, 4095, -1.08247797218, -0.800938121064},
           {"gpt-oss", 31, 131071, 1.34551633536, 0.053350026293},
           {"llama3.1", 31, 131071, 0.695219509708, -0.718797491176},
           {"olmo-3", 24, 65535, -1.08069407409, -0.539656740724},
       }) {
    Engine engine{1};
    const Setting& setting = settings().at(each.setting);
    const RopeTable table =
        make_rope_table(engine.arena, each.position + 1, setting.head_dim, setting.base, setting.scaling);
    const auto at = static_cast<size_t>(each.position * setting.head_dim / 2 + each.pair);
    const float cos = to_floats(table.cos)[at], sin = to_floats(table.sin)[at];
    const auto within_an_ulp = [](float got, double expected) {
      const auto nearest = static_cast<float>(expected);
      return got >= std::nextafterf(nearest, -2.0F) && got <= std::nextafterf(nearest, 2.0F);
    };
    EXPECT_TRUE(within_an_ulp(cos, each.cos)) << each.setting << " " << cos;
    EXPECT_TRUE(within_an_ulp(sin, each.sin)) << each.setting << " " << sin;
  }
}

TEST(RopeScaling, ShortHeadsAndUnknownMethods) {
  for (const auto& [name, setting] : settings())
    for (const int64_t head_dim : {2, 4, 6}) {
      const auto frequencies = rope_frequencies(setting.scaling, setting.base, head_dim);
      for (const double f : frequencies) EXPECT_TRUE(f > 0.0 && f <= 1.0) << name << head_dim;
    }
  EXPECT_THROW(rope_frequencies({.method = "dynamic"}, 1e4, 64), Error);
  EXPECT_THROW(rope_frequencies({}, 1e4, 5), Error);
}

}  // namespace
}  // namespace athanor::tests::rope_scaling_test
