#include "read_remarks.h"

#include <fmt/core.h>

#include <cstdio>
namespace athanor::apps {

void say_remarks(const ReadReport& report, const std::vector<std::string>& paths) {
  for (const std::string& line : remarks(report, paths.size() == 1 ? paths[0] : "in all"))
    std::fprintf(stderr, "athanor: %s\n", line.c_str());
}

}  // namespace athanor::apps
