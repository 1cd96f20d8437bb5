#include "progress.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/human.h"
#include "terminal.h"

namespace athanor::apps {
namespace {
constexpr double kTerminalSeconds = 0.1, kPlainSeconds = 10, kWorthSayingSeconds = 1;
}

ProgressLine::ProgressLine() : terminal_(is_terminal(stderr)) {}

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
  // In place only what takes one line: a long name loses its middle.
  const size_t columns = console_columns(stderr) - 1;
  std::string shown = text;
  if (terminal_ && display_width(text) > columns) {
    const size_t rest = display_width(text) - display_width(what);
    std::string_view end = what;
    while (!end.empty() && display_width(end) + rest + 3 > columns)
      end.remove_prefix(first_code_point(end).size_bytes);
    shown = std::string(fit_columns("..." + std::string(end) + text.substr(what.size()), columns));
  }
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", shown.c_str());
  drawn_ = terminal_;
}

void ProgressLine::clear() {
  if (std::exchange(drawn_, false)) std::fputs("\r\033[K", stderr);
}

double ProgressLine::seconds() const {
  return now_seconds() - start_;
}

TokenizeProgress show_tokenizing(ProgressLine& line, bool say_done) {
  return [&line, say_done](const TokenizeState& state) {
    const std::string source = printable(state.source);
    if (state.waiting) {
      line.clear();
      std::fprintf(stderr, "athanor: waiting for another process that tokenizes %s\n", source.c_str());
      return;
    }
    if (state.parts_found > 0 || state.starts_anew) line.clear();
    if (state.parts_found > 0)
      std::fprintf(stderr, "athanor: tokenizing %s goes on: %s part%s of it %s done\n", source.c_str(),
                   with_commas(state.parts_found).c_str(), state.parts_found == 1 ? "" : "s",
                   state.parts_found == 1 ? "is" : "are");
    if (state.starts_anew)
      std::fprintf(
          stderr,
          "athanor: tokenizing %s starts anew: the text, the tokenizer or a setting is another one than in "
          "the unfinished build that was there\n",
          source.c_str());
    if (!state.untraced_part.empty()) {
      line.clear();
      std::fprintf(stderr,
                   "athanor: warning: %s, a part of %s, has lost its .sources, so the token file gets none "
                   "and no token "
                   "of it can be traced to a file and a line; build it anew to have that\n",
                   printable(state.untraced_part).c_str(), source.c_str());
    }
    const auto done = static_cast<double>(state.bytes_done), total = static_cast<double>(state.bytes_total);
    const std::string tokens = human_count(static_cast<double>(state.tokens));
    line.update("tokenizing " + source, done, total,
                fmt::format("{} of {}, {} tokens, {}/s", human_bytes(done), human_bytes(total), tokens,
                            human_bytes(done / std::max(line.seconds(), 1e-3))));
    if (!state.finished) return;
    line.clear();
    if (state.run_together)
      std::fprintf(
          stderr,
          "athanor: warning: the tokenizer has no end of text, so the %s documents of %s follow each other "
          "directly: name one as eos_token in a tokenizer_config.json beside tokenizer.json\n",
          with_commas(state.documents).c_str(), source.c_str());
    if (!say_done || line.seconds() < kWorthSayingSeconds) return;
    std::fprintf(stderr, "athanor: tokenized %s: %s tokens in %s document%s, %s\n", source.c_str(),
                 tokens.c_str(), with_commas(state.documents).c_str(), state.documents == 1 ? "" : "s",
                 human_bytes(total).c_str());
  };
}

}  // namespace athanor::apps
