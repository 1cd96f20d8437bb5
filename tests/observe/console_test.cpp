#include "athanor/observe/console.h"

#include <gtest/gtest.h>

#include <sstream>

#include "athanor/base/human.h"

namespace athanor::tests::console_test {
namespace {

struct Screen {
  std::string text;
  double now = 0;
  ConsoleOptions options(bool is_terminal, size_t width = 100) {
    return {.write = [this](std::string_view piece) { text += piece; },
            .is_terminal = is_terminal,
            .width = width,
            .clock = [this] { return now; }};
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
  Console console(screen.options(false, 80));
  screen.now = 12;
  console.step(metrics_at(1), 401);
  EXPECT_EQ(screen.text, "step 001/401 | loss 5.1234 | 1,234 tok/s | step 155 ms | 12s, eta 1m02s\n");
}

TEST(Console, APlainLineSaysMoreWhereThereIsRoom) {
  for (size_t width = 20; width <= 220; ++width) {
    Screen screen;
    Console console(screen.options(false, width));
    console.step(metrics_at(10), 400);
    const std::string line = screen.lines().back();
    EXPECT_LE(display_width(line), std::max<size_t>(width, 12)) << line;
    if (width >= 80) {
      EXPECT_EQ(line.find("lr 3.0e-04") != std::string::npos, width >= 87) << line;
    }
    if (width >= 150) {
      EXPECT_EQ(
          line,
          "step 010/400 | loss 5.1234 | en 5.01 zh 6.20 | grad norm 1.23 | lr 3.0e-04 | 1,234 tok/s | mfu "
          "12.3 % | step 155 ms | 0s, eta 1m00s");
    }
  }
}

TEST(Console, PlainLinesComeEveryLogEveryStepsAndAtBothEnds) {
  Screen screen;
  ConsoleOptions options = screen.options(false);
  options.log_every = 4;
  Console console(options);
  for (int64_t step = 1; step <= 10; ++step) console.step(metrics_at(step), 10);
  std::string steps;
  for (const auto& line : screen.lines()) steps += line.substr(5, 2) + " ";
  EXPECT_EQ(steps, "01 04 08 10 ");
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
      if (width >= 80) {
        EXPECT_NE(bar.find("step 155 ms"), std::string::npos) << bar;
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
  EXPECT_EQ(done(200), 11u);
  EXPECT_EQ(done(399), 21u);
  EXPECT_EQ(done(400), 22u);
}

// A terminal that lays text out anew when its window is resized, as most do: what a person would see.
struct Window {
  size_t columns = 80;
  std::vector<std::string> lines = {""};  // as written, each of them wrapped to the window when it is shown
  void write(std::string_view text) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\r') {  // to the start of the part that the cursor is in
        at = lines.back().empty() ? 0 : (lines.back().size() - 1) / columns * columns;
      } else if (text[i] == '\n') {
        lines.emplace_back();
        at = 0;
      } else if (text.substr(i).starts_with("\x1b[K")) {
        lines.back().resize(std::min(lines.back().size(), at));
        i += 2;
      } else if (text[i] == '\x1b') {  // up over the wrapped parts of this line, and clear what follows
        const size_t end = text.find('A', i);
        ASSERT_EQ(std::stoul(std::string(text.substr(i + 2, end - i - 2))),
                  (lines.back().size() - 1) / columns);
        ASSERT_EQ(text.substr(end + 1, 3), "\x1b[J");
        lines.back().clear();
        at = 0;
        i = end + 3;
      } else {
        if (at < lines.back().size()) lines.back()[at] = text[i];
        if (at >= lines.back().size()) lines.back() += text[i];
        ++at;
      }
    }
  }
  size_t at = 0;
};

TEST(Console, ANarrowerWindowNeverFillsTheScreen) {
  for (const size_t narrow : {21u, 40u, 63u, 79u, 200u}) {
    Window window;
    window.columns = 160;
    Console console({.write = [&](std::string_view text) { window.write(text); },
                     .is_terminal = true,
                     .utf8 = false,
                     .columns = [&] { return window.columns; }});
    for (int64_t step = 1; step <= 40; ++step) {
      if (step == 10) window.columns = narrow;
      if (step == 30) window.columns = 120;
      console.step(metrics_at(step), 400);
      if (step == 20) console.message("saved");
      ASSERT_EQ(window.lines.size(), step < 20 ? 1u : 2u) << window.lines.back();
      ASSERT_LT(window.lines.back().size(), window.columns) << window.lines.back();
    }
    EXPECT_EQ(window.lines[0], "saved");
    EXPECT_NE(window.lines[1].find("40/400"), std::string::npos);
  }
}

// Channels come and go with the samples of a step, losses and rates change their width.
TEST(Console, NothingInTheBarMovesWhenValuesComeAndGo) {
  for (const size_t width : {80u, 120u, 200u}) {
    Screen screen;
    Console console(screen.options(true, width));
    const auto place = [&](const StepMetrics& m) {
      screen.text.clear();
      console.step(m, 4000);
      const size_t eta = screen.text.find(", eta");
      return eta == std::string::npos ? eta
                                      : display_width(screen.text.substr(1, screen.text.rfind("  ", eta)));
    };
    StepMetrics m = metrics_at(1);
    const size_t first = place(m);
    m.step = 2, m.channel_loss = {{"zh", 6.1}}, m.loss = 9.5;
    EXPECT_EQ(place(m), first) << screen.text;
    m.step = 3, m.channel_loss = {}, m.tokens_per_second = 99123, m.grad_norm = 0.5;
    EXPECT_EQ(place(m), first) << screen.text;
    EXPECT_EQ(screen.text.find("en 5.01 zh 6.10") != std::string::npos, width > 80) << screen.text;
  }
}

TEST(Console, TheBestValidationLossStands) {
  Screen screen;
  Console console(screen.options(true, 160));
  StepMetrics m = metrics_at(1);
  for (const double loss : {5.5, 4.25, 4.75}) {
    m.valid_loss = loss;
    console.validation(m, 400);
  }
  console.step(m, 400);
  EXPECT_NE(screen.text.find("best valid 4.2500"), std::string::npos) << screen.text;
}

StepMetrics eight_channels() {
  StepMetrics m = metrics_at(180);
  m.channel_loss.clear();
  for (const char* name :
       {"wikipedia-en", "wikipedia-zh", "code", "books", "arxiv", "forum", "news", "maths"})
    m.channel_loss.emplace_back(name, 4.0 + static_cast<double>(m.channel_loss.size()));
  m.valid_channel_loss = m.channel_loss;
  return m;
}

TEST(Console, ManyChannelsAreATable) {
  for (size_t width = 30; width <= 220; ++width) {
    Screen screen;
    Console console(screen.options(false, width));
    console.validation(eight_channels(), 400);
    const auto lines = screen.lines();
    for (const std::string& line : lines) EXPECT_LT(display_width(line), width) << line;
    if (width == 80) {
      EXPECT_EQ(screen.text,
                "valid 180/400 | loss 4.9000\n"
                "      wikipedia-en  4.0000   wikipedia-zh  5.0000   code          6.0000\n"
                "      books         7.0000   arxiv         8.0000   forum         9.0000\n"
                "      news         10.0000   maths        11.0000\n");
    }
    if (width == 200) {
      EXPECT_EQ(lines.size(), 1u) << screen.text;
    }
  }
}

TEST(Console, ASampleIsAFewLines) {
  Screen screen;
  Console console(screen.options(false, 40));
  console.sample(
      {.step = 100, .prompt = "The fur\x1b", .text = "nace\n\n  \nis hot " + std::string(900, 'x')});
  const auto lines = screen.lines();
  ASSERT_EQ(lines.size(), 9u) << screen.text;
  EXPECT_EQ(lines[0], "sample after step 100");
  EXPECT_EQ(lines[1], "  The fur?nace");
  EXPECT_EQ(lines[2], "  is hot");
  for (const std::string& line : lines) EXPECT_LE(display_width(line), 40u);
  EXPECT_TRUE(lines.back().ends_with(" …"));
}

TEST(Console, AWideWindowHoldsTheHeaderInTwoColumns) {
  const Rows rows = {{"run", "/home/me/runs/first, new"},
                     {"model", "llama, 8 layers"},
                     {"parameters", "10 M"},
                     {"memory", "38 MiB\tparameters 10 MiB\tgradients 10 MiB"},
                     {"data", "en\tzh"},
                     {"steps", "1 to 400"}};
  const auto height = [&](size_t width) {
    Screen screen;
    Console console(screen.options(true, width));
    console.header("t", rows);
    for (const auto& line : screen.lines()) EXPECT_LE(display_width(line), width);
    return screen.lines().size();
  };
  EXPECT_EQ(height(80), 8u);
  EXPECT_EQ(height(200), 5u);
}

TEST(Console, LinesThatStayStandAboveTheBar) {
  Screen screen;
  Console console(screen.options(true));
  console.message("before");
  EXPECT_EQ(screen.text, "before\n");
  console.step(metrics_at(1), 400);
  screen.text.clear();
  console.validation(metrics_at(1), 400);
  EXPECT_TRUE(screen.text.starts_with("\r\x1b[Kvalid 001/400 | loss 4.9000 | en 4.80 zh 5.50\n   1/400"))
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
}  // namespace athanor::tests::console_test
