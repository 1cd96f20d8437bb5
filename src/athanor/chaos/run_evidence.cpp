#include "athanor/chaos/run_evidence.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include "athanor/base/check.h"
#include "athanor/chaos/program_output.h"
#include "athanor/chaos/run_watch.h"
#include "athanor/checkpoint/checkpoint.h"

namespace athanor::chaos {
namespace {

StepEvidence step_of(const std::string& line, const std::string& path, size_t number) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  check(json.is_object(), "{}:{}: got a line that is no JSON object", path, number);
  StepEvidence evidence;
  for (const std::string& field : compared_fields()) {
    check(json.contains(field), "{}:{}: no field '{}'", path, number, field);
    evidence.fields.push_back(json[field].dump());
  }
  check(json["step"].is_number_integer(), "{}:{}: step: got {}, expected an integer", path, number,
        evidence.fields.front());
  evidence.step = json["step"].get<int64_t>();
  return evidence;
}

// That each step from the first to the last stands once, in order.
std::string wrong_order(const RunEvidence& evidence) {
  for (size_t i = 1; i < evidence.steps.size(); ++i) {
    const int64_t before = evidence.steps[i - 1].step, step = evidence.steps[i].step;
    if (step == before + 1) continue;
    return step <= before ? fmt::format("step {} stands again after step {}", step, before)
                          : fmt::format("step {} is missing", before + 1);
  }
  return "";
}

std::string first_difference(const StepEvidence& got, const StepEvidence& expected) {
  for (size_t i = 0; i < compared_fields().size(); ++i)
    if (got.fields[i] != expected.fields[i])
      return fmt::format("step {}: {}: got {}, expected {}", got.step, compared_fields()[i], got.fields[i],
                         expected.fields[i]);
  return "";
}

void compare_steps(const RunEvidence& got, const RunEvidence& expected, std::vector<std::string>& found) {
  if (std::string wrong = wrong_order(got); !wrong.empty()) found.push_back(std::move(wrong));
  if (got.steps.empty() || got.steps.front().step != expected.steps.front().step ||
      got.steps.back().step != expected.steps.back().step)
    found.push_back(got.steps.empty() ? "no steps"
                                      : fmt::format("steps {} to {}, expected {} to {}",
                                                    got.steps.front().step, got.steps.back().step,
                                                    expected.steps.front().step, expected.steps.back().step));
  std::map<int64_t, const StepEvidence*> by_step;
  for (const StepEvidence& step : expected.steps) by_step[step.step] = &step;
  for (const StepEvidence& step : got.steps) {
    const auto other = by_step.find(step.step);
    if (other == by_step.end()) continue;
    if (std::string wrong = first_difference(step, *other->second); !wrong.empty()) {
      found.push_back(std::move(wrong));
      break;
    }
  }
}

}  // namespace

const std::vector<std::string>& compared_fields() {
  static const std::vector<std::string> fields = {"step",      "tokens", "loss",      "channel_loss",
                                                  "grad_norm", "lr",     "loss_scale"};
  return fields;
}

RunEvidence read_evidence(Env& env, const std::string& run_folder, const std::string& ledger) {
  RunEvidence evidence{.ledger = ledger};
  const std::string path = join_path(run_folder, "metrics.jsonl");
  const std::string text = env.read_text(path);
  check(text.empty() || text.back() == '\n', "{}: the last line is not complete", path);
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    evidence.steps.push_back(step_of(text.substr(at, end - at), path, evidence.steps.size() + 1));
    at = end + 1;
  }
  const auto newest = newest_checkpoint(env, run_folder, nullptr);
  check(newest.has_value(), "'{}': no checkpoint", run_folder);
  const Checkpoint checkpoint = Checkpoint::open(env, *newest);
  evidence.digest = fmt::format("{} {}", checkpoint.step(), checkpoint.digest());
  return evidence;
}

std::string ledger_of(const std::string& program, const std::string& run_folder,
                      const std::vector<std::string>& environment) {
  const std::string text =
      program_output({program, "dataset", "verify", "--ledger", run_folder, "--json"}, environment);
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  check(json.is_object() && json.contains("phases"), "dataset verify --ledger: got '{}'", text);
  std::string ledger;
  for (const Json& phase : json["phases"])
    ledger += fmt::format("{}steps {} to {}: {}", ledger.empty() ? "" : ", ", phase.at("first_step").dump(),
                          phase.at("last_step").dump(), phase.at("hash").get<std::string>());
  return ledger;
}

std::vector<std::string> differences(const RunEvidence& got, const RunEvidence& expected) {
  check(!expected.steps.empty(), "chaos: the undisturbed run has no steps");
  std::vector<std::string> found;
  compare_steps(got, expected, found);
  if (got.digest != expected.digest)
    found.push_back(fmt::format("checkpoint: got {}, expected {}", got.digest, expected.digest));
  if (got.ledger != expected.ledger)
    found.push_back(fmt::format("ledger: got '{}', expected '{}'", got.ledger, expected.ledger));
  return found;
}

}  // namespace athanor::chaos
