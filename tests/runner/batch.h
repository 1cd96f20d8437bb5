// Runs test cases of one program in one process, and says of each what became of it. A case in which the process dies or
// hangs has failed, and those after it are run by another process: none is lost.
//
//   const std::vector<CaseResult> results = run_batch({.program = "build/release/tests/base_tests", .prefix = "base.",
//                                                      .cases = {"Hash.OfNothing", "Hash.OfALongText"}},
//                                                     {.folder = scratch, .silence_s = 1200});
//
// Thread rule: any thread, each with a folder of its own. Error: std::runtime_error where no process can be started.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace athanor::tests {

struct Batch {
  std::string program;
  std::string prefix;              // of the names in results: "base."
  std::vector<std::string> cases;  // as GoogleTest names them
  bool on_disk = false;            // they ask what a disk does
};

struct CaseResult {
  enum class Kind { passed, failed, skipped };
  std::string name;
  Kind kind = Kind::passed;
  std::string text = {};     // what a failed one printed, why another was skipped
  int64_t milliseconds = 0;  // of a case that came to its end
};

struct BatchOptions {
  std::string folder;       // for the files of the run, and for those of cases that want a disk
  std::string memory = {};  // for those of all other cases: their files wait for no disk; "": `folder`
  int silence_s = 1200;     // without a case that begins or ends, after which the process is killed
};

std::vector<CaseResult> run_batch(const Batch& batch, const BatchOptions& options);

// A program that is one case: exit code 0 has passed, 77 is skipped with the reason that follows "SKIPPED: ".
CaseResult run_command(const std::string& name, const std::vector<std::string>& command,
                       const BatchOptions& options);

// The cases that a program has, by its list, in its order.
std::vector<std::string> cases_of(const std::string& program, const std::string& filter,
                                  const BatchOptions& options);

}  // namespace athanor::tests
