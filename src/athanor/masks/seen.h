// How much of a block of (query, key) pairs is seen.
#pragma once

#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::masks {

enum class Seen : uint8_t { none, some, all };

}  // namespace athanor::masks
