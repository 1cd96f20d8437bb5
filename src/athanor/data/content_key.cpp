#include "athanor/data/content_key.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "athanor/base/clock.h"
#include "athanor/base/error.h"
#include "athanor/base/hash.h"

namespace athanor::data {
namespace {

constexpr size_t kKeyDigits = 32;

struct Stamp {
  std::string name;
  double newest = 0;  // change time, seconds since 1970
};

std::optional<Stamp> stamp_of(const std::vector<SourceFile>& files) {
  Hash128 hash;
  Stamp stamp;
  for (const SourceFile& file : files) {
    struct stat info {};
    if (::stat(file.path.c_str(), &info) != 0) return std::nullopt;
    hash.update(fmt::format("{}\n{} {} {} {}.{:09}\n", file.relative, info.st_dev, info.st_ino, info.st_size,
                            info.st_ctim.tv_sec, info.st_ctim.tv_nsec));
    stamp.newest = std::max(stamp.newest, static_cast<double>(info.st_ctim.tv_sec));
  }
  stamp.name = hash.hex() + ".stamp";
  return stamp;
}

std::string hash_files(Env& env, const std::vector<SourceFile>& files) {
  Hash128 hash;
  std::string chunk(size_t{1} << 20, '\0');
  for (const SourceFile& file : files) {
    const auto input = env.open(file.path);
    hash.update(fmt::format("{}\n{}\n", file.relative, input->size_bytes()));
    for (uint64_t offset = 0; offset < input->size_bytes();) {
      const size_t size_bytes =
          static_cast<size_t>(std::min<uint64_t>(chunk.size(), input->size_bytes() - offset));
      input->read(offset, chunk.data(), size_bytes);
      hash.update(chunk.data(), size_bytes);
      offset += size_bytes;
    }
  }
  return hash.hex();
}

}  // namespace

std::string content_key(Env& env, const std::vector<SourceFile>& files, const std::string& cache_folder,
                        uint64_t stamped_bytes) {
  uint64_t total_bytes = 0;
  for (const SourceFile& file : files) total_bytes += file.size_bytes;
  const std::optional<Stamp> stamp = total_bytes < stamped_bytes ? std::nullopt : stamp_of(files);
  if (!stamp) return hash_files(env, files);
  const std::string path = join_path(cache_folder, stamp->name);
  if (env.exists(path)) {
    std::string key = env.read_text(path, 4096);
    if (key.size() == kKeyDigits && key.find_first_not_of("0123456789abcdef") == std::string::npos)
      return key;
  }
  // A file changed a moment ago may change again within the resolution of its change time.
  constexpr double kSettledSeconds = 2;
  const bool settled = stamp->newest + kSettledSeconds < wall_seconds();
  std::string key = hash_files(env, files);
  if (settled) {
    try {
      env.write_atomically(path, key);
    } catch (const IoError&) {  // without the stamp the next start only takes longer
    }
  }
  return key;
}

}  // namespace athanor::data
