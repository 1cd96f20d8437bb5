#include "runner/batch.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "runner/events.h"
#include "runner/process.h"
#include "support/tiers.h"

namespace athanor::tests {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

uint64_t size_of(const std::string& path) {
  std::error_code missing;
  const auto size = std::filesystem::file_size(path, missing);
  return missing ? 0 : size;
}

std::string part(const std::string& text, uint64_t first, uint64_t last) {
  if (first >= text.size()) return "";
  return text.substr(first, std::max(first, last) - first);
}

std::string last_line_after(const std::string& text, const std::string& word) {
  const size_t at = text.rfind(word);
  if (at == std::string::npos) return "no reason given";
  return text.substr(at + word.size(), text.find('\n', at) - at - word.size());
}

// Where the cases of a process work; nothing is left there for the next.
std::string empty_folder(const Batch& batch, const BatchOptions& options) {
  std::string folder = (batch.on_disk || options.memory.empty() ? options.folder : options.memory) + "/work";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

// What one process says about the cases it was given; what is not in `found` it has not come to.
struct Told {
  std::map<std::string, CaseResult> found;
  std::string output;
  ProcessEnd end;
  bool within_a_case = false;  // it ended there
};

Told run_once(const Batch& batch, const std::vector<std::string>& cases, const BatchOptions& options,
              bool leaks_by_case) {
  const std::string events = options.folder + "/events", output = options.folder + "/output";
  std::filesystem::remove(events);
  std::string filter;
  for (const std::string& name : cases) filter += (filter.empty() ? "" : ":") + name;
  Told told;
  std::vector<std::string> command{batch.program, "--gtest_filter=" + filter};
  if (leaks_by_case) command.emplace_back(kLeaksByCase);
  told.end = run_process(command,
                         {.output = output,
                          .folder = empty_folder(batch, options),
                          .environment = {std::string(kEventsVariable) + "=" + events},
                          .silence_s = options.silence_s},
                         [&] { return size_of(events); });
  told.output = read_file(output);
  TestEvent open;
  for (const TestEvent& event : events_of(read_file(events))) {
    if (event.kind == TestEvent::Kind::begun) {
      open = event;
      continue;
    }
    CaseResult result{.name = batch.prefix + event.name, .milliseconds = event.milliseconds};
    if (event.kind == TestEvent::Kind::failed) {
      result.kind = CaseResult::Kind::failed;
      result.text = part(told.output, open.output_bytes, event.output_bytes);
    } else if (event.kind == TestEvent::Kind::skipped) {
      result.kind = CaseResult::Kind::skipped;
      result.text = event.reason;
    }
    told.found.emplace(event.name, result);  // a case ends once
    open = {};
  }
  told.within_a_case = !open.name.empty();
  if (told.within_a_case)
    told.found[open.name] = {.name = batch.prefix + open.name,
                             .kind = CaseResult::Kind::failed,
                             .text = "The process ended in this case: " + told.end.text() + "\n" +
                                     part(told.output, open.output_bytes, told.output.size())};
  return told;
}

std::vector<CaseResult> run_cases(const Batch& batch, const BatchOptions& options, bool leaks_by_case) {
  std::vector<CaseResult> results;
  std::vector<std::string> left = batch.cases;
  while (!left.empty()) {
    const Told told = run_once(batch, left, options, leaks_by_case);
    std::vector<std::string> later;
    bool failed = false;
    for (const std::string& name : left) {
      const auto found = told.found.find(name);
      if (found == told.found.end()) {
        later.push_back(name);
        continue;
      }
      results.push_back(found->second);
      failed = failed || found->second.kind == CaseResult::Kind::failed;
    }
    const bool ended_well = told.end.exit_code == 0 && told.end.signal == 0;
    // A program that goes on in no case, or says that all is well without having run them.
    if (later.size() == left.size() || (ended_well && !told.within_a_case && !later.empty())) {
      for (const std::string& name : later)
        results.push_back({.name = batch.prefix + name,
                           .kind = CaseResult::Kind::failed,
                           .text = "It was not run: " + told.end.text() + "\n" + told.output});
      return results;
    }
    if (later.empty() && !failed && !ended_well) {
      if (address_sanitizer && !leaks_by_case) return run_cases(batch, options, true);
      results.push_back({.name = batch.prefix + left.back() + " and those before it",
                         .kind = CaseResult::Kind::failed,
                         .text = "The process failed at its end: " + told.end.text() + "\n" + told.output});
    }
    left = later;
  }
  return results;
}
}  // namespace

std::vector<TestEvent> events_of(const std::string& text) {
  std::vector<TestEvent> events;
  size_t at = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; at = end + 1, end = text.find('\n', at)) {
    std::istringstream line(text.substr(at, end - at));
    char kind = 0;
    TestEvent event;
    line >> kind >> event.output_bytes >> event.milliseconds >> event.name;
    line.get();
    std::getline(line, event.reason);
    event.kind = static_cast<TestEvent::Kind>(kind);
    events.push_back(event);
  }
  return events;
}

std::vector<CaseResult> run_batch(const Batch& batch, const BatchOptions& options) {
  return run_cases(batch, options, false);
}

CaseResult run_command(const std::string& name, const std::vector<std::string>& command,
                       const BatchOptions& options) {
  const std::string output = options.folder + "/output";
  const ProcessEnd end = run_process(command, {.output = output, .silence_s = options.silence_s},
                                     [&] { return size_of(output); });
  CaseResult result{.name = name};
  if (end.signal == 0 && end.exit_code == 77) {
    result.kind = CaseResult::Kind::skipped;
    result.text = last_line_after(read_file(output), "SKIPPED: ");
  } else if (end.signal != 0 || end.exit_code != 0) {
    result.kind = CaseResult::Kind::failed;
    result.text = end.text() + "\n" + read_file(output);
  }
  return result;
}

std::vector<std::string> cases_of(const std::string& program, const std::string& filter,
                                  const BatchOptions& options) {
  const std::string output = options.folder + "/output";
  const ProcessEnd end =
      run_process({program, "--gtest_list_tests", "--gtest_filter=" + filter},
                  {.output = output, .silence_s = options.silence_s}, [] { return uint64_t{0}; });
  const std::string text = read_file(output);
  if (end.exit_code != 0 || end.signal != 0)
    throw std::runtime_error(program + " does not list its cases: " + end.text() + "\n" + text);
  std::vector<std::string> names;
  std::istringstream lines(text);
  std::string suite;
  for (std::string line; std::getline(lines, line);) {
    const std::string word = line.substr(0, line.find("  # "));  // what follows is a parameter
    if (!line.starts_with("  ")) {
      suite = word;
    } else if (suite.ends_with(".")) {
      names.push_back(suite + word.substr(2));
    }
  }
  return names;
}

}  // namespace athanor::tests
