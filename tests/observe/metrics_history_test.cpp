// What a start does with the metrics that it finds: nothing is lost, whatever stands in the file and wherever it dies.
#include "athanor/observe/metrics_history.h"

#include <gtest/gtest.h>

#include "athanor/observe/metrics.h"
#include "support/fault_env.h"
#include "support/temporary_folder.h"

namespace athanor::tests::metrics_history_test {
namespace {

std::string line(int64_t step) {
  return metrics_line({.step = step, .loss = 1.0 / static_cast<double>(step), .step_seconds = 0.5}) + "\n";
}
std::string lines(int64_t first, int64_t last) {
  std::string text;
  for (int64_t step = first; step <= last; ++step) text += line(step);
  return text;
}

struct HistoryCase {
  const char* name;
  std::string text;
  int64_t resumed_step;
  std::string kept, abandoned, damaged;
  int64_t last_step;
};
void PrintTo(const HistoryCase& each, std::ostream* out) {
  *out << each.name;
}

std::vector<HistoryCase> history_cases() {
  const std::string half = line(3).substr(0, 14) + "\n";
  std::string letter = line(3);
  letter.replace(letter.find("grad_norm"), 4, "grat");
  std::string formatted = "{ \"loss\": 0.5, ";
  formatted += line(2).substr(line(2).find("\"tokens\""));
  formatted.insert(formatted.size() - 2, ", \"step\": 2");
  return {
      {"whole", lines(1, 4), 4, lines(1, 4), "", "", 4},
      {"later_steps", lines(1, 6), 4, lines(1, 4), lines(5, 6), "", 4},
      {"no_checkpoint", lines(1, 3), 0, "", lines(1, 3), "", 0},
      {"one_cut_off", lines(1, 2) + half + lines(4, 6), 6, lines(1, 2) + lines(4, 6), "", half, 6},
      {"one_cut_off_then_later", lines(1, 2) + half + lines(4, 6), 4, lines(1, 2) + line(4), lines(5, 6),
       half, 4},
      {"a_key_lost_a_letter", lines(1, 2) + letter + line(4), 4, lines(1, 2) + line(4), "", letter, 4},
      {"zeros_of_a_power_cut", line(1) + std::string(64, '\0') + "\n" + line(3), 3, line(1) + line(3), "",
       std::string(64, '\0') + "\n", 3},
      {"an_editors_mark", "\xef\xbb\xbf" + lines(1, 2), 2, lines(1, 2), "", "", 2},
      {"an_editors_line_ends", line(1).substr(0, line(1).size() - 1) + "\r\n" + line(2), 2, lines(1, 2), "",
       "", 2},
      {"empty_lines", "\n" + line(1) + "\n\n" + line(2), 2, lines(1, 2), "", "", 2},
      {"torn", lines(1, 3) + line(4).substr(0, 30), 4, lines(1, 3), "", "", 3},
      {"only_the_end_is_missing", lines(1, 3).substr(0, lines(1, 3).size() - 1), 3, lines(1, 3), "", "", 3},
      {"twice", lines(1, 3) + line(2) + line(4), 4, lines(1, 4), line(2), "", 4},
      {"foreign", lines(1, 2) + "hello\n[1,2]\n{}\n" + line(3), 3, lines(1, 3), "", "hello\n[1,2]\n{}\n", 3},
      {"formatted_by_a_tool", line(1) + formatted + line(3), 3, line(1) + formatted + line(3), "", "", 3},
  };
}

class History : public ::testing::TestWithParam<HistoryCase> {
 protected:
  std::string read(const char* name) const {
    return system_env().exists(folder.path(name)) ? system_env().read_text(folder.path(name)) : "";
  }
  const TemporaryFolder folder;
  const std::string path = folder.path("metrics.jsonl");
};
INSTANTIATE_TEST_SUITE_P(All, History, ::testing::ValuesIn(history_cases()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(History, IsSortedAndNothingOfItIsLost) {
  const HistoryCase& c = GetParam();
  system_env().write_atomically(path, c.text);
  const MetricsWriter writer(system_env(), path, c.resumed_step);
  EXPECT_EQ(read("metrics.jsonl"), c.kept);
  EXPECT_EQ(read("metrics.abandoned.jsonl"), c.abandoned);
  EXPECT_EQ(read("metrics.damaged.jsonl"), c.damaged);
  EXPECT_EQ(writer.last_step(), c.last_step);
  EXPECT_EQ(writer.found().num_damaged > 0, !c.damaged.empty());
  EXPECT_EQ(writer.found().last_abandoned > 0, !c.abandoned.empty());
  EXPECT_NO_THROW(read_metrics(system_env(), path));
}

TEST_P(History, AKillAtAnyInstantLosesNothingAndSetsNothingAsideTwice) {
  const HistoryCase& c = GetParam();
  if (c.abandoned.empty() || c.damaged.empty()) return;  // the others are parts of this
  int64_t fail_at = 0;
  for (bool failed = true; failed; ++fail_at) {
    for (const char* name : {"metrics.abandoned.jsonl", "metrics.damaged.jsonl"})
      system_env().remove_all(folder.path(name));
    system_env().write_atomically(path, c.text);
    FaultEnv env(fail_at, FaultEnv::Fault::kill);
    try {
      open_history(env, path, c.resumed_step);
    } catch (const IoError&) {
    }
    failed = env.failed();
    open_history(system_env(), path, c.resumed_step);
    EXPECT_EQ(read("metrics.jsonl"), c.kept) << "killed at call " << fail_at;
    EXPECT_EQ(read("metrics.abandoned.jsonl"), c.abandoned) << "killed at call " << fail_at;
    EXPECT_EQ(read("metrics.damaged.jsonl"), c.damaged) << "killed at call " << fail_at;
  }
}

TEST(MetricsHistory, WhatIsSetAsideComesBehindWhatIsThere) {
  const TemporaryFolder folder;
  const std::string path = folder.path("metrics.jsonl"), aside = folder.path("metrics.abandoned.jsonl");
  system_env().write_atomically(path, lines(1, 5));
  open_history(system_env(), path, 3);
  system_env().write_atomically(path, lines(1, 3) + lines(5, 7));
  open_history(system_env(), path, 3);
  EXPECT_EQ(system_env().read_text(aside), lines(4, 7));  // step 5, with the same bits, is there
  system_env().write_atomically(path, lines(1, 4));
  const MetricsHistory found = open_history(system_env(), path, 2);
  EXPECT_EQ(system_env().read_text(aside), lines(4, 7) + lines(3, 4));
  EXPECT_EQ(found.first_abandoned, 3);
  EXPECT_EQ(found.last_abandoned, 4);
}

TEST(MetricsHistory, GenerationsGoWithTheirLinesAndCountOn) {
  const TemporaryFolder folder;
  const std::string path = folder.path("metrics.jsonl"), aside = folder.path("metrics.abandoned.jsonl");
  const auto of = [](int64_t step, int64_t generation) {
    return metrics_line({.step = step, .generation = generation}) + "\n";
  };
  EXPECT_EQ(last_generation(system_env(), path), -1);
  std::string old = of(1, 7);  // as an earlier version wrote it
  old.replace(old.find(",\"generation\":7"), 15, "");
  EXPECT_EQ(parse_metrics_line(old).generation, 0);
  system_env().write_atomically(path, old);
  EXPECT_EQ(last_generation(system_env(), path), 0);
  system_env().write_atomically(path, old + of(2, 1) + of(3, 1) + of(4, 3) + "{\"step\":5,\"gener");
  EXPECT_EQ(last_generation(system_env(), path), 3);
  open_history(system_env(), path, 2);
  EXPECT_EQ(system_env().read_text(path), old + of(2, 1));
  EXPECT_EQ(system_env().read_text(aside), of(3, 1) + of(4, 3));
  EXPECT_EQ(last_generation(system_env(), path), 3);
  for (const char* damage : {"", "\n", "hello\n", "[1]\n", "{\"step\":9,\"generation\":\"x\"}\n"}) {
    system_env().write_atomically(path, of(1, 5) + damage);
    EXPECT_EQ(last_generation(system_env(), path),
              std::string(damage).find("step") == std::string::npos ? 5 : 3)
        << damage;
  }
}

}  // namespace
}  // namespace athanor::tests::metrics_history_test
