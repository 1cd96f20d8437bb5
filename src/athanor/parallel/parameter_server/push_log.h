// The recorded schedule of an asynchronous run: which pushes a server has applied, in order. Enough to run it again bit
// for bit, since all else follows (push_order.h).
//
//   PushLog log(env, "runs/first/schedule/server0.csv", /*kept_step=*/0);   // a resumed run is cut back to its step
//   log.version();                                                          // of the last push that was kept
//   log.write(record);
//   std::vector<PushRecord> records = read_push_log(env, path);
//
//   version,worker,step,commit,pulled,staleness
//   1,0,1,0,0,0
//
// A line is handed to the system as it is written. Errors: IoError of the Env; Error naming path and line where one is
// broken or a version is missing; a torn last line is left out. Thread rule: one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/parallel/parameter_server/push_order.h"

namespace athanor {

class PushLog {
 public:
  PushLog(Env& env, const std::string& path, int64_t kept_step);
  int64_t version() const { return version_; }  // 0: none
  void write(const PushRecord& record);

 private:
  int64_t version_ = 0;
  std::unique_ptr<WritableFile> file_;
};

std::vector<PushRecord> read_push_log(Env& env, const std::string& path);

}  // namespace athanor
