// Suggests the known name that an unknown one probably meant, for error messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::base {

// The candidate with the smallest edit distance (insert, delete, replace, swap of neighbours), or "" if that distance
// is more than half of the name's length.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace athanor::base
