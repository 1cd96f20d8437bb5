// How much of a block of (query, key) pairs is seen: a name that kernels can include without the lists. Thread rule: plain data.
#pragma once

#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::masks {

enum class Seen : uint8_t { none, some, all };

}  // namespace athanor::masks
