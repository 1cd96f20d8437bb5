// Lists of words for filters: inline entries and a file with an entry a line.
//
//   const std::vector<std::string> words = read_list({"a"}, "words.txt");
//
// Lines are stripped; empty ones and those that begin with "#" are left out. Thread rule: pure function.
// Errors: IoError naming a file that cannot be read.
#pragma once

#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::filters {

std::vector<std::string> read_list(const std::vector<std::string>& entries, const std::string& path);
std::string lower_ascii(std::string text);

}  // namespace athanor::corpus::filters
