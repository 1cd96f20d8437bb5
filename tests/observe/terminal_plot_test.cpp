#include "athanor/observe/terminal_plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "athanor/base/human.h"
#include "athanor/observe/sparkline.h"

namespace athanor::tests::terminal_plot_test {
namespace {

std::vector<StepMetrics> falling_to(int64_t steps, double floor) {
  std::vector<StepMetrics> all;
  for (int64_t step = 1; step <= steps; ++step) {
    StepMetrics m{.step = step, .tokens = 100 * step, .loss = floor + 4.0 / static_cast<double>(step)};
    if (step % (steps / 4) == 0) m.valid_loss = m.loss + 0.25;
    all.push_back(m);
  }
  return all;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST(TerminalPlot, AFallingLineInAscii) {
  std::vector<StepMetrics> metrics;
  for (int64_t step = 1; step <= 21; ++step)
    metrics.push_back({.step = step, .loss = 21.0 - static_cast<double>(step)});
  metrics[20].valid_loss = 0.0;
  const auto lines = terminal_plot(loss_curves(metrics, "", PlotX::step),
                                   {.columns = 32, .rows = 4, .style = {.color = false, .utf8 = false}});
  EXPECT_EQ(joined(lines),
            " loss\n"
            " 20.0 +......                 \n"
            "      |     .......           \n"
            "      |           .......     \n"
            "  0.0 +                 .....o\n"
            "      +-----------------------\n"
            "       1        step        21\n"
            "       . train 0.0000   o valid 0.0000\n");
}

TEST(TerminalPlot, APhaseBeginsAtAThinLineUnderItsName) {
  std::vector<StepMetrics> metrics;
  for (int64_t step = 1; step <= 21; ++step)
    metrics.push_back({.step = step, .loss = 21.0 - static_cast<double>(step)});
  const std::vector<BegunPhase> phases = {{"warm-up phase", 1}, {"long", 12}};
  const auto lines = terminal_plot(loss_curves(metrics, "", PlotX::step),
                                   {.columns = 32,
                                    .rows = 4,
                                    .style = {.color = false, .utf8 = false},
                                    .phases = phase_marks(phases, metrics, PlotX::step)});
  EXPECT_EQ(joined(lines),
            " loss  warm-up ph~ long\n"
            " 20.0 +......      |          \n"
            "      |     .......|          \n"
            "      |           .......     \n"
            "  0.0 +            |    ......\n"
            "      +------------+----------\n"
            "       1        step        21\n"
            "       . train 0.0000\n");
}

TEST(TerminalPlot, FitsEveryWidthInBothAlphabets) {
  const auto curves = loss_curves(falling_to(400, 2), "", PlotX::step);
  for (size_t columns = 60; columns <= 200; columns += 7)
    for (const bool utf8 : {true, false}) {
      const auto lines = terminal_plot(curves, {.columns = columns, .rows = 10, .style = {false, utf8}});
      ASSERT_EQ(lines.size(), 14u);
      for (const std::string& line : lines) {
        EXPECT_LE(display_width(line), columns) << line;
        for (const char c : line) EXPECT_TRUE(utf8 || static_cast<unsigned char>(c) < 0x80) << line;
      }
    }
  for (size_t columns = 0; columns < 60; ++columns)
    EXPECT_EQ(terminal_plot(curves, {.columns = columns}).size(), 14u);
}

TEST(TerminalPlot, NothingIsDrawnOfNothing) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const auto lines = [](const std::vector<StepMetrics>& metrics, bool log_scale = false) {
    return terminal_plot(loss_curves(metrics, "", PlotX::step), {.log_scale = log_scale}).size();
  };
  EXPECT_EQ(lines({}), 0u);
  EXPECT_EQ(lines({{.step = 1, .loss = 5}}), 0u);
  EXPECT_EQ(lines({{.step = 1, .loss = nan}, {.step = 2, .loss = infinity}}), 0u);
  EXPECT_EQ(lines({{.step = 1, .loss = -5}, {.step = 2, .loss = -6}}, true), 0u);
  EXPECT_GT(lines({{.step = 1, .loss = 5}, {.step = 2, .loss = 5}}), 0u);
  EXPECT_GT(lines({{.step = 1, .loss = 5}, {.step = 2, .loss = nan}, {.step = 9, .loss = 4}}), 0u);
  EXPECT_GT(lines({{.step = 1, .loss = 5}, {.step = 2, .loss = 1e300}, {.step = 3, .loss = 4}}), 0u);
}

TEST(TerminalPlot, TellsRunsApart) {
  auto curves = loss_curves(falling_to(400, 2), "first", PlotX::tokens);
  for (const LossCurve& curve : loss_curves(falling_to(200, 3), "sec\x1bond", PlotX::tokens))
    curves.push_back(curve);
  const std::string plain = joined(
      terminal_plot(curves, {.columns = 80, .x_name = "tokens", .style = {.color = false, .utf8 = true}}));
  for (const char* part :
       {". first    train 2.0100   ● valid 2.2600", "- sec?ond  train 3.0200   ■ valid 3.2700", "tokens"})
    EXPECT_NE(plain.find(part), std::string::npos) << part << "\n" << plain;
  const std::string colored =
      joined(terminal_plot(curves, {.columns = 80, .style = {.color = true, .utf8 = true}}));
  EXPECT_NE(colored.find("\x1b[36m"), std::string::npos);
  EXPECT_NE(colored.find("\x1b[33m"), std::string::npos);
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
}

TEST(TerminalPlot, TheBestValidationLossIsNamed) {
  std::vector<StepMetrics> metrics = falling_to(100, 1);
  metrics[49].valid_loss = 0.5;
  const std::string text = joined(terminal_plot(loss_curves(metrics, "", PlotX::step), {}));
  EXPECT_NE(text.find("(best 0.5000 at 50)"), std::string::npos) << text;
}

TEST(Sparkline, FollowsTheSeriesHoweverLongItIs) {
  EXPECT_EQ(sparkline(std::vector<double>{8, 7, 6, 5, 4, 3, 2, 1}, 8), "█▇▆▅▄▃▂▁");
  EXPECT_EQ(sparkline(std::vector<double>{1, 1}, 8), "▁▁");
  EXPECT_EQ(sparkline(std::vector<double>{1}, 8), "");
  Trail trail;
  for (int i = 0; i < 100000; ++i) trail.add(i % 1000 == 0 ? std::nan("") : 100000.0 - i);
  EXPECT_LT(trail.means().size(), 257u);
  EXPECT_EQ(sparkline(trail.means(), 8), "█▇▆▅▄▃▂▁");
}

}  // namespace
}  // namespace athanor::tests::terminal_plot_test
