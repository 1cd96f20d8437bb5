#include "athanor/observe/plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

namespace athanor::tests::plot_test {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

std::vector<StepMetrics> falling(int64_t steps) {
  std::vector<StepMetrics> all;
  for (int64_t step = 1; step <= steps; ++step) {
    const double loss = 2.0 + 7.0 / static_cast<double>(step);
    StepMetrics m = {
        .step = step, .loss = loss, .channel_loss = {{"en", loss - 0.5}, {"a<b>&\"", loss + 0.5}}};
    if (step % 100 == 0) m.valid_loss = loss, m.valid_channel_loss = m.channel_loss;
    all.push_back(m);
  }
  return all;
}

// Tags are balanced, no number is nan or inf, and nothing runs or loads.
void expect_sound(const std::string& svg) {
  EXPECT_TRUE(svg.starts_with("<svg "));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  for (const std::string tag : {"svg", "text", "title", "circle"})
    EXPECT_EQ(count(svg, "<" + tag + " ") + count(svg, "<" + tag + ">"), count(svg, "</" + tag + ">")) << tag;
  for (const std::string word : {"nan", "inf", "script", "href"})
    EXPECT_EQ(count(svg, word), 0u) << word << "\n" << svg;
}

TEST(Plot, DrawsLinesDotsAndLegend) {
  const std::string svg = loss_svg({{"", falling(400)}}, "first");
  expect_sound(svg);
  EXPECT_EQ(count(svg, "<circle"), 8u);  // four evaluations of two channels
  EXPECT_EQ(count(svg, "<path"), 5u);    // whole, two channels, and the held-out of these
  EXPECT_NE(svg.find("a&lt;b&gt;&amp;&quot;: validation loss"), std::string::npos);
  EXPECT_NE(svg.find(">first</text>"), std::string::npos);
  EXPECT_NE(svg.find(">2.518</text>"), std::string::npos);  // the last loss of the second channel
}

TEST(Plot, EveryPointLiesInsideTheFrame) {
  const std::string svg = loss_svg({{"", falling(1000)}}, "x");
  const std::regex point("[ML]([0-9.-]+) ([0-9.-]+)");
  size_t points = 0;
  for (std::sregex_iterator it(svg.begin(), svg.end(), point), end; it != end; ++it, ++points) {
    const double x = std::stod((*it)[1]), y = std::stod((*it)[2]);
    ASSERT_TRUE(x >= 64 && x <= 768 && y >= 60 && y <= 488) << x << " " << y;
  }
  EXPECT_GT(points, 500u);
}

TEST(Plot, LongRunsStaySmall) {
  const std::string svg = loss_svg({{"", falling(200000)}}, "long");
  expect_sound(svg);
  EXPECT_LT(svg.size(), 100000u);
}

TEST(Plot, OddRunsAreSound) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  expect_sound(loss_svg({{"", {}}}, ""));
  expect_sound(loss_svg({{"", {{.step = 1, .loss = 5}}}}, "one"));
  expect_sound(loss_svg({{"", {{.step = 1, .loss = nan}, {.step = 2, .loss = infinity}}}}, "broken"));
  expect_sound(loss_svg({{"", {{.step = 1, .loss = 5}, {.step = 2, .loss = 5}}}}, "flat"));
  expect_sound(loss_svg(
      {{"", {{.step = 1, .loss = 5}, {.step = 2, .loss = 1e300}, {.step = 3, .loss = -1e300}}}}, "huge"));
  expect_sound(loss_svg({{"", {{.step = 1LL << 60, .loss = 0}}}}, "far"));
  expect_sound(loss_svg({{"", {{.step = 1, .loss = 1e-9}, {.step = 2, .loss = 2e-9}}}}, "small"));
  StepMetrics many = {.step = 1, .loss = 1};
  for (int i = 0; i < 40; ++i) many.channel_loss.emplace_back("channel-number-" + std::to_string(i), i);
  expect_sound(loss_svg({{"", {many}}}, "many\x1b"));
}

TEST(Plot, WhatIsNotANumberLeavesAGap) {
  auto metrics = falling(100);
  const auto moves = [&] { return count(loss_svg({{"", metrics}}, "x"), "M"); };
  const size_t whole = moves();
  metrics[50].loss = std::nan("");
  EXPECT_EQ(moves(), whole + 1);
}

TEST(Plot, TheEvaluationBeforeTheFirstStepIsAPointAtZero) {
  const auto metrics = with_first_evaluation(falling(100), 9.5, {{"en", 9.0}, {"a<b>&\"", 10.0}});
  const std::string svg = loss_svg({{"", metrics}}, "x");
  expect_sound(svg);
  EXPECT_NE(svg.find("en: validation loss 9.0000 at step 0"), std::string::npos) << svg;
  EXPECT_EQ(with_first_evaluation(falling(3), std::nan(""), {}).size(), 3u);
}

TEST(Plot, ChannelsStandInTheOrderOfTheConfig) {
  std::vector<StepMetrics> metrics(3);
  metrics[0].channel_loss = {{"c", 1}, {"d", 1}};  // a step has tokens of some channels
  metrics[1].channel_loss = {{"a", 1}, {"c", 1}};
  metrics[2].channel_loss = {{"a", 1}, {"b", 1}, {"d", 1}};
  const std::vector<std::string> names = channel_names(metrics);
  const auto at = [&](const char* name) {
    return std::find(names.begin(), names.end(), name) - names.begin();
  };
  EXPECT_EQ(names.size(), 4u);
  EXPECT_LT(at("a"), at("c"));
  EXPECT_LT(at("a"), at("b"));
  EXPECT_LT(at("c"), at("d"));
  EXPECT_LT(at("b"), at("d"));
  metrics[2].valid_channel_loss = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}};  // an evaluation has all
  EXPECT_EQ(channel_names(metrics), (std::vector<std::string>{"a", "b", "c", "d"}));
}

TEST(Plot, ANoisyCurveIsSmoothedOverWhatItWas) {
  auto metrics = falling(400);
  const size_t calm = count(loss_svg({{"", metrics}}, "x"), "<path");
  for (auto& m : metrics) m.loss = 3 + (m.step % 2 == 0 ? 0.5 : -0.5);
  EXPECT_EQ(count(loss_svg({{"", metrics}}, "x"), "<path"), calm + 1);
  const auto smooth = smoothed({{0, 1}, {1, 3}, {2, 5}, {3, std::nan("")}, {4, 9}}, 1);
  EXPECT_EQ(smooth[0].value, 1);
  EXPECT_EQ(smooth[1].value, 3);
  EXPECT_EQ(smooth[2].value, 4);
  EXPECT_TRUE(std::isnan(smooth[3].value));
  EXPECT_EQ(smooth[4].value, 9);
}

TEST(Plot, LongNamesThatBeginAlikeStayApart) {
  auto metrics = falling(10);
  for (auto& m : metrics) m.channel_loss = {{"wikipedia-of-english", 1.0}, {"wikipedia-of-chinese", 2.0}};
  const std::string svg = loss_svg({{"", metrics}}, "x");
  EXPECT_NE(svg.find("english</text>"), std::string::npos);
  EXPECT_NE(svg.find("chinese</text>"), std::string::npos);
}

TEST(Plot, APhaseBeginsBetweenTwoSteps) {
  auto metrics = with_first_evaluation(falling(10), 9.5, {});
  for (auto& m : metrics) m.tokens = m.step * 100, m.step_seconds = 360;
  const std::vector<BegunPhase> phases = {{"short", 1}, {"long", 4}, {"later", 11}};
  EXPECT_EQ(phase_marks(phases, metrics, PlotX::step),
            (std::vector<PhaseMark>{{"short", 1, true}, {"long", 3.5, false}}));
  EXPECT_EQ(phase_marks(phases, metrics, PlotX::tokens)[1].x, 350);
  EXPECT_TRUE(phase_marks({}, metrics, PlotX::step).empty());
  std::vector<PhaseMark> marks = phase_marks(phases, metrics, PlotX::step);
  add_marks(marks, {{"long", 3.5}, {"other", 2.5}});
  ASSERT_EQ(marks.size(), 3u) << "those of two runs at one place are one";
  EXPECT_EQ(marks[1].name, "other");
}

TEST(Plot, NamesOfPhasesHaveTheirRoom) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(names_that_fit({{0, "warm-up"}, {20, "anneal"}}, 40), (Names{"warm-up", "anneal"}));
  EXPECT_EQ(names_that_fit({{0, "warm-up"}, {6, "anneal"}}, 10), (Names{"warm…", "ann…"}));
  EXPECT_EQ(names_that_fit({{0, "warm-up"}, {3, "anneal"}}, 40, "~"), (Names{"", "anneal"}));
  EXPECT_EQ(names_that_fit({{5, "one"}, {5, "two"}}, 40), (Names{"", "two"}));
  EXPECT_EQ(names_that_fit({{0, "a"}, {0, "b"}}, 40), (Names{"", "b"}));
  EXPECT_EQ(names_that_fit({{39, "at the edge"}}, 40), (Names{""}));
}

TEST(Plot, PhasesAreThinLinesWithTheirNames) {
  const std::vector<BegunPhase> phases = {{"warm-up", 1}, {"a<b>&", 100}, {"anneal", 300}};
  const std::string plain = loss_svg({{"", falling(400)}}, "x"),
                    svg = loss_svg({{"", falling(400), phases}}, "x"),
                    two = loss_svg({{"a", falling(400), phases}, {"b", falling(400), phases}}, "a, b");
  expect_sound(svg);
  EXPECT_EQ(count(svg, "<line"), count(plain, "<line") + 2);  // the first begins with the curve
  for (const char* name : {">warm-up</text>", ">a&lt;b&gt;&amp;</text>", ">anneal</text>"}) {
    EXPECT_EQ(count(svg, name), 1u) << name;
    EXPECT_EQ(count(two, name), 1u) << name;
  }
}

TEST(Plot, SeveralRunsAreComparedByTokensOrTimeAndOnALogarithmicAxis) {
  auto slow = falling(300), fast = falling(200);
  for (auto* run : {&slow, &fast})
    for (auto& m : *run) m.tokens = m.step * 4096, m.step_seconds = 0.5;
  slow[7].loss = -1;  // has no logarithm
  for (const PlotX x : {PlotX::step, PlotX::tokens, PlotX::time})
    for (const bool log_scale : {false, true}) {
      const std::string svg = loss_svg({{"slow", slow}, {"fast", fast}}, "slow, fast", {x, log_scale});
      expect_sound(svg);
      EXPECT_NE(svg.find(std::string(">") + plot_x_name(x) + "</text>"), std::string::npos);
      EXPECT_EQ(count(svg, ">fast</text>"), 1u);
    }
}

}  // namespace
}  // namespace athanor::tests::plot_test
