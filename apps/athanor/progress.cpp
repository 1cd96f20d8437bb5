#include "progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/human.h"

namespace athanor {
namespace {
constexpr double kTerminalSeconds = 0.1, kPlainSeconds = 10;
}

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO)) {}

void ProgressLine::update(const std::string& what, double done, double total, const std::string& amount) {
  const double now = now_seconds();
  if (what != what_) {
    what_ = what;
    start_ = now;
    if (!terminal_) last_ = now;
  }
  if (now - last_ < (terminal_ ? kTerminalSeconds : kPlainSeconds)) return;
  last_ = now;
  const double elapsed = now - start_;
  const std::string left = done > 0 && elapsed > 1
                               ? ", " + human_seconds(elapsed * std::max(total - done, 0.0) / done) + " left"
                               : "";
  const std::string text =
      fmt::format("{} {:3.0f}%  {}{}", what, total > 0 ? 100 * done / total : 100, amount, left);
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", text.c_str());
  drawn_ = terminal_;
}

void ProgressLine::clear() {
  if (std::exchange(drawn_, false)) std::fputs("\r\033[K", stderr);
}

double ProgressLine::seconds() const {
  return now_seconds() - start_;
}

}  // namespace athanor
