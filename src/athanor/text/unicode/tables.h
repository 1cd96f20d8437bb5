// The Unicode data of this folder's functions, written by scripts/unicode_tables.mjs; how each table is packed stands
// above it. Thread rule: constants.
#pragma once

#include <cstddef>
#include <cstdint>

#include "athanor/base/namespaces.h"

namespace athanor::text::unicode {

extern const uint32_t kProperties[], kOldCategories[], kLowercase[], kMarks[], kClusters[], kScripts[];
extern const size_t kPropertiesSize, kOldCategoriesSize, kLowercaseSize, kMarksSize, kClustersSize,
    kScriptsSize;
extern const uint64_t kCanonical[], kCompatibility[];
extern const size_t kCanonicalSize, kCompatibilitySize;

}  // namespace athanor::text::unicode
