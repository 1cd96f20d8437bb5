// Where the things lie that tests start and read. Only places.cpp knows the folders, so that all other objects are the same
// in every clone and come from the compiler cache.
// Thread rule: pure functions.
#pragma once

#include <string>

namespace athanor::tests {

std::string built(const std::string& name);  // a file of the build folder: "athanor", "tests/apps_faults.so"
std::string of_source(const std::string& path);  // one of the source tree: "tests/golden/llama"

}  // namespace athanor::tests
