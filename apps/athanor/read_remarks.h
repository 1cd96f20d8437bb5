// What a command that has read text says about what it read: on standard error, a line each.
#pragma once

#include <string>
#include <vector>

#include "athanor/data/document_reader.h"

namespace athanor {

void say_remarks(const ReadReport& report, const std::vector<std::string>& paths);

}  // namespace athanor
