// Suggests the known name that an unknown one probably meant, for error messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace athanor {

// The candidate with the smallest edit distance (insert, delete, replace, swap of neighbours), or "" where
// even that is more than half of the name away.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace athanor
