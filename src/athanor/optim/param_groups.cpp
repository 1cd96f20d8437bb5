#include "athanor/optim/param_groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/base/human.h"
#include "athanor/base/nearest.h"

namespace athanor::optim {

// The last * takes as much text as it must: after a mismatch it takes one character more.
bool matches(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

const ParamGroup* group_of(const std::vector<ParamGroup>& groups, std::string_view name) {
  const auto found = std::find_if(groups.begin(), groups.end(),
                                  [&](const ParamGroup& group) { return matches(group.match, name); });
  return found != groups.end() ? &*found : nullptr;
}

void check_groups(const std::vector<ParamGroup>& groups, const std::vector<std::string>& names) {
  for (const ParamGroup& group : groups) {
    const auto has = [&](const std::string& name) { return group_of(groups, name) == &group; };
    if (std::any_of(names.begin(), names.end(), has)) continue;
    const bool is_shadowed = std::any_of(names.begin(), names.end(),
                                         [&](const std::string& name) { return matches(group.match, name); });
    std::vector<std::string> left = names;
    std::string nearest;
    for (int i = 0; i < 3; ++i) {
      const std::string name = nearest_name(group.match, left);
      if (name.empty()) break;
      nearest += (nearest.empty() ? "" : ", ") + name;
      std::erase(left, name);
    }
    throw ConfigError(
        fmt::format("optimizer.group: got match = \"{}\", which {}, expected the name of a parameter, or a "
                    "pattern with * and ?",
                    printable(group.match),
                    is_shadowed ? "only parameters of earlier groups have" : "no parameter has"),
        nearest.empty() ? fmt::format("names are like {}", names.empty() ? "" : names.front())
                        : "the nearest names are " + nearest);
  }
}

}  // namespace athanor::optim
