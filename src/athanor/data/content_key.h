// A hash that identifies the text of a path, by names and bytes of its files: the key of the tokenization cache.
//
//   const std::string key = content_key(env, list_sources(env, "data/en").files, ".cache");
//
// Small corpora are hashed every time. For a corpus above kStampedBytes the hash is kept in the cache folder under a
// stamp of names, sizes, inodes and change times, as version control systems do: a user cannot set a change time back.
// Thread rule: any thread. Errors: IoError for a file that cannot be read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/documents/source_files.h"

namespace athanor::data {

constexpr uint64_t kStampedBytes = uint64_t{64} << 20;

std::string content_key(Env& env, const std::vector<SourceFile>& files, const std::string& cache_folder,
                        uint64_t stamped_bytes = kStampedBytes);

}  // namespace athanor::data
