// Runs the test programs of a build: run_tests LIST [JOBS]
//
// LIST has a line for each program, its words apart by tabs (cmake/athanor.cmake writes it):
//   gtest PREFIX PROGRAM FILTER     its cases are single results, PREFIX before their names
//   disk PREFIX PROGRAM FILTER      the same, and their files must lie on a disk
//   command NAME PROGRAM ARG...     one result
// Cases of a program are run many to a process, in its order, JOBS processes at a time; the first lines of LIST should be
// those that take longest. Files of cases lie in memory (/dev/shm) where there is room: a run syncs dozens of them, which
// takes a disk longer than all its computing. Prints what fails when it does, at the end what was skipped and why, and what failed; the last
// line is "N passed, N failed[, N skipped]". ATHANOR_TEST_TIMES names a file for the milliseconds of each case.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include "runner/batch.h"

namespace athanor::tests {
namespace {

// So many start a program seldom and still leave something for each processor to the end.
constexpr size_t kCasesPerProcess = 24;
constexpr int kSilenceSeconds =
    1200;  // long after the slowest case, sanitized on a slow machine, would be done

struct Job {
  Batch batch;                       // of a program with cases
  std::vector<std::string> command;  // of one without
};

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream rest(line);
  for (std::string word; std::getline(rest, word, '\t');) words.push_back(word);
  return words;
}

std::vector<Job> jobs_of(const std::string& list, const BatchOptions& options) {
  std::vector<Job> jobs;
  std::ifstream lines(list);
  if (!lines) throw std::runtime_error("cannot read " + list);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() < 3) continue;
    if (words[0] == "command") {
      jobs.push_back({.batch = {.program = {}, .prefix = words[1], .cases = {}},
                      .command = {words.begin() + 2, words.end()}});
      continue;
    }
    const std::vector<std::string> cases =
        cases_of(words[2], words.size() > 3 && !words[3].empty() ? words[3] : "*", options);
    for (size_t first = 0; first < cases.size(); first += kCasesPerProcess) {
      const size_t last = std::min(cases.size(), first + kCasesPerProcess);
      Job job{.batch = {.program = words[2], .prefix = words[1], .cases = {}, .on_disk = words[0] == "disk"},
              .command = {}};
      for (size_t i = first; i < last; ++i) job.batch.cases.push_back(cases[i]);
      jobs.push_back(std::move(job));
    }
  }
  return jobs;
}

std::string first_lines(const std::string& text, int most) {
  std::istringstream lines(text);
  std::string some;
  for (std::string line; most > 0 && std::getline(lines, line);) {
    if (line.empty() || line.starts_with("[ RUN ") || line.starts_with("Note:")) continue;
    some += "    " + line.substr(0, 300) + "\n";
    --most;
  }
  return some;
}

// Where the time of a run goes: which cases to make shorter first.
void print_slowest(std::vector<CaseResult> results) {
  constexpr size_t kShown = 12;
  const auto slower = [](const CaseResult& a, const CaseResult& b) {
    return a.milliseconds > b.milliseconds;
  };
  std::ranges::stable_sort(results, slower);
  std::cout << "Slowest cases, in seconds:\n";
  for (size_t i = 0; i < std::min(kShown, results.size()); ++i)
    std::cout << "  " << static_cast<double>(results[i].milliseconds) / 1000 << "  " << results[i].name
              << "\n";
}

int summarize(const std::vector<CaseResult>& results) {
  std::map<std::string, std::vector<std::string>> skipped;  // by reason
  std::vector<const CaseResult*> failed;
  size_t passed = 0, skips = 0;
  for (const CaseResult& each : results) {
    if (each.kind == CaseResult::Kind::passed) ++passed;
    if (each.kind == CaseResult::Kind::failed) failed.push_back(&each);
    if (each.kind != CaseResult::Kind::skipped) continue;
    ++skips;
    skipped[each.text].push_back(each.name);
  }
  if (skips > 0) std::cout << "Skipped tests, by their reasons:\n";
  for (const auto& [reason, names] : skipped) {
    std::cout << "  " << reason << "\n";
    for (const std::string& name : names) std::cout << "    " << name << "\n";
  }
  if (!failed.empty())
    std::cout << "Failed tests, with what they said first:\n";  // .ci/run says it again at its end
  for (const CaseResult* each : failed) std::cout << "  " << each->name << "\n" << first_lines(each->text, 8);
  std::cout << passed << " passed, " << failed.size() << " failed";
  if (skips > 0) std::cout << ", " << skips << " skipped";
  std::cout << std::endl;
  return failed.empty() && passed > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

// A folder for the files of this process, "" if there is no room. Those of runners that were killed are removed.
std::string folder_of_own(const std::filesystem::path& root, uint64_t needed_bytes) {
  const std::string name = "athanor_tests_";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root, error)) {
    const std::string found = entry.path().filename().string();
    if (!found.starts_with(name)) continue;
    const int owner = std::atoi(found.c_str() + name.size());
    if (owner > 0 && kill(owner, 0) != 0 && errno == ESRCH) std::filesystem::remove_all(entry.path(), error);
  }
  const auto space = std::filesystem::space(root, error);
  if (error || space.available < needed_bytes) return "";
  const std::filesystem::path own = root / (name + std::to_string(getpid()));
  return std::filesystem::create_directory(own, error) ? own.string() : "";
}

int run_all(const std::string& list, int threads) {
  constexpr uint64_t kRoomInMemory = uint64_t{2} << 30;
  const std::string scratch = folder_of_own(std::filesystem::temp_directory_path(), 0);
  if (scratch.empty()) throw std::runtime_error("no temporary folder");
  const std::string memory = folder_of_own("/dev/shm", kRoomInMemory);
  const std::vector<Job> jobs = jobs_of(list, {.folder = scratch, .silence_s = kSilenceSeconds});

  std::mutex mutex;
  size_t next = 0;
  std::vector<CaseResult> all;
  const auto work = [&](int thread) {
    const std::string own = "/" + std::to_string(thread);
    const BatchOptions options{
        .folder = scratch + own, .memory = memory.empty() ? "" : memory + own, .silence_s = kSilenceSeconds};
    std::filesystem::create_directories(options.folder);
    for (;;) {
      size_t number = 0;
      {
        const std::scoped_lock lock(mutex);
        if (next == jobs.size()) return;
        number = next++;
      }
      const Job& job = jobs[number];
      std::vector<CaseResult> results;
      try {
        results = job.command.empty() ? run_batch(job.batch, options)
                                      : std::vector{run_command(job.batch.prefix, job.command, options)};
      } catch (const std::exception& error) {
        results = {{.name = job.batch.prefix, .kind = CaseResult::Kind::failed, .text = error.what()}};
      }
      const std::scoped_lock lock(mutex);
      std::cout << "[" << number + 1 << "/" << jobs.size() << "] " << results.front().name;
      if (results.size() > 1) std::cout << " to " << results.back().name;
      std::cout << std::endl;
      for (const CaseResult& each : results)
        if (each.kind == CaseResult::Kind::failed)
          std::cout << "FAILED: " << each.name << "\n" << each.text << std::endl;
      all.insert(all.end(), results.begin(), results.end());
    }
  };
  std::vector<std::thread> workers;
  for (int thread = 0; thread < threads; ++thread) workers.emplace_back(work, thread);
  for (std::thread& worker : workers) worker.join();
  std::filesystem::remove_all(scratch);
  if (!memory.empty()) std::filesystem::remove_all(memory);
  print_slowest(all);
  if (const char* times = std::getenv("ATHANOR_TEST_TIMES"))  // of all, for a closer look
    for (std::ofstream file(times); const CaseResult& each : all)
      file << each.milliseconds << "\t" << each.name << "\n";
  return summarize(all);
}

}  // namespace
}  // namespace athanor::tests

int main(int argc, char** argv) {
  const int jobs = argc > 2 ? std::atoi(argv[2]) : static_cast<int>(std::thread::hardware_concurrency());
  if (argc < 2 || argc > 3 || jobs < 1) {
    std::cerr << "run_tests: error: arguments: expected LIST [JOBS], JOBS at least 1\n";
    return 2;
  }
  try {
    return athanor::tests::run_all(argv[1], jobs);
  } catch (const std::exception& error) {
    std::cerr << "run_tests: error: " << error.what() << "\n";
    std::cout << "0 passed, 1 failed\n";
    return EXIT_FAILURE;
  }
}
