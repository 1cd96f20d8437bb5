#include "athanor/observe/console.h"

#include <gtest/gtest.h>

#include <sstream>

#include "athanor/base/human.h"

namespace athanor {
namespace {

struct Screen {
  std::string text;
  ConsoleOptions options(bool is_terminal, size_t width = 100) {
    return {.write = [this](std::string_view piece) { text += piece; },
            .is_terminal = is_terminal,
            .width = width};
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }
};

StepMetrics metrics_at(int64_t step) {
  return {.step = step,
          .loss = 5.1234,
          .channel_loss = {{"en", 5.01}, {"zh", 6.2}},
          .grad_norm = 1.234,
          .lr = 3e-4,
          .tokens_per_second = 1234.2,
          .mfu = 0.1234,
          .step_seconds = 0.155,
          .valid_loss = 4.9,
          .valid_channel_loss = {{"en", 4.8}, {"zh", 5.5}}};
}

TEST(Console, PlainLine) {
  Screen screen;
  Console console(screen.options(false));
  console.step(metrics_at(1), 401);
  EXPECT_EQ(
      screen.text,
      "step 00001/401 | loss 5.1234 | en 5.01 zh 6.20 | norm 1.23 | lr 3.0e-04 | 1,234 tok/s | mfu 12.3 % | "
      "eta 1m02s\n");
}

TEST(Console, PlainLinesComeEveryLogEveryStepsAndAtBothEnds) {
  Screen screen;
  ConsoleOptions options = screen.options(false);
  options.log_every = 4;
  Console console(options);
  for (int64_t step = 1; step <= 10; ++step) console.step(metrics_at(step), 10);
  std::string steps;
  for (const auto& line : screen.lines()) steps += line.substr(5, 5) + " ";
  EXPECT_EQ(steps, "00001 00004 00008 00010 ");
  EXPECT_EQ(screen.text.find('\x1b'), std::string::npos);
  EXPECT_EQ(screen.text.find('\r'), std::string::npos);
}

TEST(Console, TheTimeLeftFollowsTheStepTime) {
  Screen screen;
  Console console(screen.options(false));
  StepMetrics m = metrics_at(1);
  for (m.step = 1; m.step <= 200; ++m.step) {
    m.step_seconds = m.step < 20 ? 60 : 1;  // slow at first
    console.step(m, 800);
  }
  EXPECT_NE(screen.lines().back().find("eta 10m"), std::string::npos) << screen.lines().back();
}

// On every width the bar stays on its line, whatever the channels are called.
TEST(Console, TheBarFitsTheTerminal) {
  for (size_t width = 0; width <= 200; ++width) {
    for (const bool utf8 : {true, false}) {
      Screen screen;
      ConsoleOptions options = screen.options(true, width);
      options.utf8 = utf8;
      Console console(options);
      StepMetrics m = metrics_at(123);
      m.channel_loss.emplace_back("代码", 1.0);
      console.step(m, 400);
      ASSERT_TRUE(screen.text.starts_with("\r"));
      ASSERT_TRUE(screen.text.ends_with("\x1b[K"));
      const std::string bar = screen.text.substr(1, screen.text.size() - 4);
      EXPECT_EQ(bar.find('\n'), std::string::npos);
      EXPECT_LE(display_width(bar), width == 0 ? 0 : width - 1) << bar;
      if (width >= 40) {
        EXPECT_NE(bar.find("123/400"), std::string::npos);
      }
      if (width >= 60) {
        EXPECT_NE(bar.find("eta"), std::string::npos) << bar;
      }
      if (width >= 120) {
        EXPECT_NE(bar.find("en 5.01 zh 6.20"), std::string::npos) << bar;
      }
    }
  }
}

TEST(Console, TheBarShowsTheShareDone) {
  const auto done = [](int64_t step) {
    Screen screen;
    Console console(screen.options(true, 150));
    console.step(metrics_at(step), 400);
    size_t count = 0;
    for (size_t at = 0; (at = screen.text.find("━", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(done(1), 0u);
  EXPECT_EQ(done(200), 15u);
  EXPECT_EQ(done(399), 29u);
  EXPECT_EQ(done(400), 30u);
}

TEST(Console, LinesThatStayStandAboveTheBar) {
  Screen screen;
  Console console(screen.options(true));
  console.message("before");
  EXPECT_EQ(screen.text, "before\n");
  console.step(metrics_at(1), 400);
  screen.text.clear();
  console.validation(metrics_at(1), 400);
  EXPECT_TRUE(screen.text.starts_with("\r\x1b[Kvalid 00001/400 | loss 4.9000 | en 4.80 zh 5.50\n   1/400"))
      << screen.text;
  console.finish();
  screen.text.clear();
  console.message("after");
  EXPECT_EQ(screen.text, "after\n");
  screen.text.clear();
  console.finish();
  EXPECT_EQ(screen.text, "");
}

TEST(Console, NoColorMeansNoColor) {
  for (const bool color : {true, false}) {
    Screen screen;
    ConsoleOptions options = screen.options(true);
    options.color = color;
    Console console(options);
    console.header("t", {{"a", "b"}});
    console.step(metrics_at(1), 4);
    console.warning("w");
    EXPECT_EQ(screen.text.find("\x1b[1m") != std::string::npos, color);
    EXPECT_EQ(screen.text.find("\x1b[0m") != std::string::npos, color);
  }
}

TEST(Console, HeaderIsARectangleOnEveryWidth) {
  for (size_t width = 0; width <= 130; ++width) {
    Screen screen;
    Console console(screen.options(true, width));
    console.header("athanor · 第一", {{"model", "llama, 8 layers × 256, and a long story about 中文 words"},
                                      {"path", std::string(90, 'x')},
                                      {"empty", ""}});
    const auto lines = screen.lines();
    for (const auto& line : lines)
      EXPECT_EQ(display_width(line), display_width(lines[0])) << width << "\n" << screen.text;
    if (width >= 30) {
      EXPECT_LE(display_width(lines[0]), width) << screen.text;
    }
  }
}

TEST(Console, ForeignTextCannotSteerTheTerminal) {
  Screen screen;
  Console console(screen.options(false));
  console.header("a\x1b]0;x\x07", {{"k\n", "v\x1b[2J"}});
  console.message("m\x1b[31m\r\n");
  console.warning("\x9b\xff");
  StepMetrics m = metrics_at(1);
  m.channel_loss = {{"e\x1b[1mn", 1.0}};
  console.step(m, 10);
  console.validation(m, 10);
  console.table({"a\x1b"}, {{"b\n\x1b"}});
  EXPECT_EQ(screen.text.find('\x1b'), std::string::npos);
  EXPECT_EQ(screen.text.find('\r'), std::string::npos);
  EXPECT_EQ(screen.text.find('\x07'), std::string::npos);
}

TEST(Console, WithoutUtf8EverythingIsAscii) {
  Screen screen;
  ConsoleOptions options = screen.options(true, 120);
  options.utf8 = false;
  Console console(options);
  console.header("athanor · first", {{"model", "8 × 256 中"}});
  console.step(metrics_at(3), 9);
  console.table({"a"}, {{"ü"}});
  for (const char c : screen.text) EXPECT_LT(static_cast<unsigned char>(c), 0x80);
  EXPECT_NE(screen.text.find("8 x 256 ?"), std::string::npos);
}

TEST(Console, TableColumnsLineUp) {
  Screen screen;
  Console console(screen.options(false));
  console.table({"channel", "loss"}, {{"en", "5.0"}, {"代码", "12.25"}, {"short"}});
  const auto lines = screen.lines();
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[2], " en          5.0 ");
  EXPECT_EQ(lines[3], " 代码      12.25 ");
  for (const auto& line : lines) EXPECT_EQ(display_width(line), display_width(lines[0]));
}

}  // namespace
}  // namespace athanor
