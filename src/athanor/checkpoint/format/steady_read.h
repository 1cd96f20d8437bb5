// Reads checkpoints while a live run removes old ones: a checkpoint that was removed or replaced during the read is not
// reported as damaged; the newest one is found and read again.
//
//   read_steadily(env, [&] { return find(); }, [&](const std::string& path) { Checkpoint::open(env, path).verify(); });
//
// Errors: the last failure, if the checkpoint is still there unchanged, or after kReadAttempts attempts. Thread rule:
// one thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "athanor/base/file.h"

namespace athanor::checkpoint::format {

constexpr int kReadAttempts = 50;

// Remembers the checkpoint at a path, to tell later whether it was removed or replaced.
class StandingCheckpoint {
 public:
  StandingCheckpoint(Env& env, std::string path);
  bool still_stands() const;

 private:
  Env& env_;
  std::string path_;
  std::optional<std::string> manifest_;  // hash of the manifest; none: it could not be read
};

// Calls use(find()), and both again if `use` failed and the checkpoint was removed or replaced meanwhile.
void read_steadily(Env& env, const std::function<std::string()>& find,
                   const std::function<void(const std::string& path)>& use);

}  // namespace athanor::checkpoint::format
