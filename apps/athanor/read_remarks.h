// Prints remarks about the text files that a command has read (documents/document_reader.h) on standard error, one per
// line.
#pragma once

#include <string>
#include <vector>

#include "athanor/documents/document_reader.h"

namespace athanor::apps {

void say_remarks(const ReadReport& report, const std::vector<std::string>& paths);

}  // namespace athanor::apps
