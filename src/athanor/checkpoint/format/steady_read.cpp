#include "athanor/checkpoint/format/steady_read.h"

#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/hash.h"
#include "athanor/checkpoint/format/manifest.h"

namespace athanor::checkpoint::format {
namespace {

std::optional<std::string> manifest_hash(Env& env, const std::string& path) {
  try {
    Hash128 hash;
    hash.update(env.read_text(join_path(path, kManifestName)));
    return hash.hex();
  } catch (const Failure&) {
    return std::nullopt;
  }
}

}  // namespace

StandingCheckpoint::StandingCheckpoint(Env& env, std::string path)
    : env_(env), path_(std::move(path)), manifest_(manifest_hash(env, path_)) {}

bool StandingCheckpoint::still_stands() const {
  return env_.exists(path_) && manifest_hash(env_, path_) == manifest_;
}

void read_steadily(Env& env, const std::function<std::string()>& find,
                   const std::function<void(const std::string& path)>& use) {
  for (int attempt = 1;; ++attempt) {
    const std::string path = find();
    const StandingCheckpoint standing(env, path);
    try {
      return use(path);
    } catch (const Failure&) {
      if (attempt == kReadAttempts || standing.still_stands()) throw;
    }
  }
}

}  // namespace athanor::checkpoint::format
