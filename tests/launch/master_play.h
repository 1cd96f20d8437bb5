// A Play says what a Master is told and lists what it wants done, a line an action.
//
//   Play play(Play::elastic(2));
//   play.go(2, 9);
//   play.kill(1);
//   EXPECT_THAT(play.wanted(), ElementsAre("break 1", "start 2 as 1"));
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <csignal>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "athanor/launch/master.h"
#include "support/kill.h"

namespace athanor::tests {

using control::Cause;

constexpr int64_t kMs = 1'000'000;
using Lines = std::vector<std::string>;

// One line an action, without events and lines for the console.
inline std::string text_of_action(const MasterAction& action) {
  if (const auto* a = std::get_if<StartWorker>(&action))
    return fmt::format("start {} as {}", a->worker, a->rank);
  if (const auto* a = std::get_if<FormWorld>(&action)) {
    std::string text = fmt::format("meet {}:", a->generation);
    for (const auto& member : a->members) {
      text += fmt::format(" {}", member.worker);
      if (!member.left.empty())
        text += fmt::format("(g{}: {})", a->left_generation, fmt::join(member.left, ","));
    }
    return text;
  }
  if (const auto* a = std::get_if<BreakWorld>(&action)) return fmt::format("break {}", a->rank);
  if (const auto* a = std::get_if<LeaveWorld>(&action)) return fmt::format("leave {}", a->rank);
  if (const auto* a = std::get_if<ReleaseSlots>(&action)) return fmt::format("release before {}", a->before);
  if (const auto* a = std::get_if<SignalWorker>(&action))
    return fmt::format("signal {} {}", a->worker, a->number);
  if (const auto* a = std::get_if<SendToWorker>(&action)) {
    if (std::holds_alternative<control::End>(a->message)) return fmt::format("end {}", a->worker);
    if (const auto* warm_up = std::get_if<control::WarmUp>(&a->message))
      return fmt::format("warm up {} for {}", a->worker, warm_up->round);
    return fmt::format("stop {} {}", a->worker, std::get<control::Stop>(a->message).signal);
  }
  return "";
}

struct Play {
  explicit Play(const MasterOptions& options) : master(options) { master.start(now); }
  static MasterOptions elastic(int ranks, int max_restarts = 10, int min_ranks = 1, int max_ranks = 0) {
    return {.num_ranks = ranks,
            .max_restarts = max_restarts,
            .min_ranks = min_ranks,
            .max_ranks = max_ranks,
            .grace_ns = 1000 * kMs};
  }

  // What is wanted since the last call.
  Lines wanted() {
    take();
    return std::exchange(lines, {});
  }
  std::string last_said() {
    take();
    return said.empty() ? "" : said.back();
  }
  Lines names_of_events() {
    take();
    Lines names;
    for (const JobEvent& event : events) names.push_back(event.event);
    return names;
  }

  void ready(std::initializer_list<int> workers, const std::string& why = "lost") {
    for (const int worker : workers) {
      master.hello(worker, now);
      master.ready(worker, why, now);
    }
  }
  void begun(int worker, int64_t step) { master.begun(worker, master.generation(), step, now); }
  void step(int worker, int64_t step) {
    master.progress(worker, {.generation = master.generation(), .step = step});
  }
  void kill(int worker, int signal = SIGKILL) {
    master.exited(worker, {.signal_number = signal, .how = fmt::format("was killed by signal {}", signal)},
                  now);
  }
  void exit(int worker, int code) {
    master.exited(worker, {.exit_code = code, .how = fmt::format("exited with code {}", code)}, now);
  }
  void fail(int worker, Cause cause, int code = 1) {
    master.farewell(worker, {.status = control::Status::failed, .cause = cause, .what = "words"});
    exit(worker, code);
  }
  void pass(int64_t ms) {
    now += ms * kMs;
    master.tick(now);
  }
  void take() {
    for (const MasterAction& action : master.take_actions()) {
      if (const auto* say = std::get_if<Say>(&action)) said.push_back(say->line);
      if (const auto* event = std::get_if<JobEvent>(&action)) events.push_back(*event);
      if (auto text = text_of_action(action); !text.empty()) lines.push_back(std::move(text));
    }
  }
  // All are there, generation 0 has begun and done steps.
  void go(int ranks, int64_t step) {
    for (int rank = 0; rank < ranks; ++rank) ready({rank}, "the start");
    begun(0, 0);
    this->step(0, step);
    wanted();
  }

  int64_t now = 5000 * kMs;
  Master master;
  Lines lines, said;
  std::vector<JobEvent> events;
};

}  // namespace athanor::tests
