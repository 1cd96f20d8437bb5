// Runs a command to its end and returns what it wrote to standard output.
//
//   const std::string text = program_output({own_program(), "dataset", "verify", "--ledger", run, "--json"}, environment);
//
// Its standard input is empty, its standard error is dropped. Errors: Error naming the command and its exit code where that is
// not 0; IoError where the system gives no process. Thread rule: one thread.
#pragma once

#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::chaos {

std::string program_output(const std::vector<std::string>& arguments,
                           const std::vector<std::string>& environment);

}  // namespace athanor::chaos
