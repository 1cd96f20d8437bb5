#include "athanor/launch/warm_up/disk.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"

namespace athanor::launch::warm_up {
namespace {

constexpr size_t kBytes = size_t{1} << 20;

// No two of its blocks are alike, nor those of two ranks.
std::vector<uint64_t> pattern(int rank) {
  std::vector<uint64_t> words(kBytes / sizeof(uint64_t));
  uint64_t word = static_cast<uint64_t>(rank) + 1;
  for (uint64_t& one : words) one = word = word * 6364136223846793005U + 1442695040888963407U;
  return words;
}

std::string nearest_folder(Env& env, std::string path) {
  while (!env.is_folder(path)) {
    const std::string above = parent_folder(path);
    if (above == path) break;
    path = above;
  }
  return path;
}

}  // namespace

double measure_disk(Env& env, const std::string& folder, int rank) {
  const std::string path = join_path(nearest_folder(env, folder), fmt::format(".warm_up.rank{}", rank));
  const std::vector<uint64_t> written = pattern(rank);
  std::vector<uint64_t> read(written.size());
  int64_t took_ns = 1;
  try {
    const int64_t before_ns = now_ns();
    const auto file = env.create(path);
    file->append(written.data(), kBytes);
    file->sync();
    file->close();
    took_ns = std::max<int64_t>(now_ns() - before_ns, 1);
    env.open(path)->read(0, read.data(), kBytes);
  } catch (const IoError&) {
    try {
      env.remove_all(path);
    } catch (const IoError&) {  // the first failure is the one to be told
    }
    throw;
  }
  env.remove_all(path);
  if (read != written)
    throw IoError(fmt::format("'{}': other bytes were read than had been written", path), EIO);
  return static_cast<double>(kBytes) * 1e3 / static_cast<double>(took_ns);
}

}  // namespace athanor::launch::warm_up
