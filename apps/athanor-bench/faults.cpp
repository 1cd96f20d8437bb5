// athanor-bench faults: tests law 8. Ranks fail at random, and every rank must get an error naming the rank and the
// call.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "apps/command_line/program.h"
#include "apps/measure/timing.h"
#include "athanor/base/error.h"
#include "athanor/observe/report.h"
#include "bench.h"
#include "fault_trial.h"

namespace athanor::apps {
namespace {

const std::vector<std::string> kTransports = {"thread", "shm", "gloo"};

struct Row {
  std::string transport, kind;
  int trials = 0, named = 0, late = 0;  // late: named, but not within a second
  Series seconds;
  std::vector<std::string> failures;
};

struct BenchFaults {
  std::string kind = "all", transport = "all";
  int trials = 100, first = 0;
  int64_t late_ms = 2000;
  uint64_t seed = 1;
  bool json = false;

  void run() const;

 private:
  Row run_row(const std::string& transport_name, FaultKind fault) const;
  Report report_of(const Row& row) const;
};

// A judge that accepts a trial without any fault would make its row meaningless.
std::string judge_trial(const FaultTrial& trial, const Heard& heard) {
  std::string wrong = judge(trial.kind, trial, heard);
  if (!wrong.empty() || trial.kind != FaultKind::none) return wrong;
  for (size_t other = 1; other < fault_kinds().size(); ++other)
    if (judge(static_cast<FaultKind>(other), trial, heard).empty())
      return fmt::format("the judge of '{}' found a fault where there was none", fault_kinds()[other]);
  return "";
}

Row BenchFaults::run_row(const std::string& transport_name, FaultKind fault) const {
  Row row{.transport = transport_name,
          .kind = fault_kinds()[static_cast<size_t>(fault)],
          .seconds = {},
          .failures = {}};
  for (int number = first; number < first + trials; ++number) {
    const FaultTrial trial = plan_trial(seed, fault, transport_name, number);
    const Heard heard = run_trial(trial, late_ms);
    const std::string wrong = judge_trial(trial, heard);
    ++row.trials;
    if (!wrong.empty()) {
      row.failures.push_back(fmt::format("--seed {} --kind {} --transport {} --first {} --trials 1: {}: {}",
                                         seed, row.kind, row.transport, number, trial.text(), wrong));
      std::cerr << "bench faults: " << row.failures.back() << "\n";
      continue;
    }
    ++row.named;
    if (heard.seconds > 1.0) ++row.late;
    row.seconds.values.push_back(heard.seconds);
  }
  return row;
}

Report BenchFaults::report_of(const Row& row) const {
  Report report;
  report["transport"] = row.transport;
  report["kind"] = row.kind;
  report["seed"] = seed;
  report["first"] = first;
  report["trials"] = row.trials;
  report["named"] = row.named;
  report["later_than_a_second"] = row.late;
  if (!row.seconds.values.empty()) {
    report["median_seconds"] = row.seconds.median();
    report["max_seconds"] = row.seconds.max();
  }
  for (const std::string& failure : row.failures) report["failures"].push_back(failure);
  return report;
}

void BenchFaults::run() const {
  if (trials < 1 || first < 0 || late_ms < 1)
    throw ConfigError(
        fmt::format("bench faults: got --trials {} --first {} --late-ms {}, expected at least 1, 0 and 1",
                    trials, first, late_ms));
  Report report;
  bool all_named = true;
  for (const std::string& transport_name : kTransports) {
    if (transport != "all" && transport != transport_name) continue;
    for (size_t fault = 0; fault < fault_kinds().size(); ++fault) {
      if (kind != "all" && kind != fault_kinds()[fault]) continue;
      const Row row = run_row(transport_name, static_cast<FaultKind>(fault));
      all_named = all_named && row.named == row.trials;
      report.push_back(report_of(row));
      if (json) continue;
      std::cout << fmt::format("{:<7} {:<10} {} of {} {}", row.transport, row.kind, row.named, row.trials,
                               fault == 0 ? "quiet" : "named");
      if (fault > 0 && row.named > 0)
        std::cout << fmt::format(", after {:.1f} ms in the median, {:.1f} at most{}",
                                 row.seconds.median() * 1e3, row.seconds.max() * 1e3,
                                 row.late == 0 ? "" : fmt::format("; {} LATER THAN A SECOND", row.late));
      std::cout << std::endl;
    }
  }
  if (json) std::cout << report.to_json() << std::flush;
  if (!all_named) throw Exit{1};
}

}  // namespace

void add_bench_faults(CLI::App& bench) {
  CLI::App* sub = bench.add_subcommand("faults", "Whether every rank is told who went wrong, and where");
  auto command = std::make_shared<BenchFaults>();
  auto kinds = fault_kinds();
  kinds.emplace_back("all");
  auto transports = kTransports;
  transports.emplace_back("all");
  sub->add_option(
         "--kind", command->kind,
         "none, straggler, shape (a wrong count on one rank), missing (a call left out), dead or all")
      ->capture_default_str()
      ->check(CLI::IsMember(kinds));
  sub->add_option("--transport", command->transport,
                  "thread, shm (processes of one host), gloo (processes over TCP) or all")
      ->capture_default_str()
      ->check(CLI::IsMember(transports));
  sub->add_option("--trials", command->trials, "Of each kind on each transport")->capture_default_str();
  sub->add_option("--first", command->first, "The number of the first trial")->capture_default_str();
  sub->add_option("--seed", command->seed, "Which ranks, calls and counts")->capture_default_str();
  sub->add_option("--late-ms", command->late_ms, "When a rank that has not come is reported")
      ->capture_default_str();
  sub->add_flag("--json", command->json, "Print one JSON document");
  sub->callback([command] { command->run(); });
}

}  // namespace athanor::apps
