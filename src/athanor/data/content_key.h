// What identifies the text of a path: names and bytes of its files.
//
//   const std::string key = content_key(env, list_sources(env, "data/en").files, ".cache");
//
// Small corpora are hashed every time. For one above kStampedBytes the result is kept in the cache folder
// under a stamp of names, sizes, inodes and change times, as version control systems do: a change time cannot
// be set back by a user. Thread rule: any thread. Errors: IoError where a file cannot be read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/data/source_files.h"

namespace athanor {

constexpr uint64_t kStampedBytes = uint64_t{64} << 20;

std::string content_key(Env& env, const std::vector<SourceFile>& files, const std::string& cache_folder,
                        uint64_t stamped_bytes = kStampedBytes);

}  // namespace athanor
