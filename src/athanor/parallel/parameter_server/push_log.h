// The replay log of an asynchronous run: which pushes a server has applied, in order. It is enough to run the training
// again bit for bit, since all else follows from the order (push_order.h).
//
//   PushLog log(env, "runs/first/schedule/server0.csv", /*kept_step=*/0);   // a resumed run truncates it to that step
//   log.version();                                                          // of the last push that remains
//   log.write(record);
//   std::vector<PushRecord> records = read_push_log(env, path);
//
//   version,worker,step,commit,pulled,staleness
//   1,0,1,0,0,0
//
// Each line is handed to the operating system as it is written. Errors: IoError of the Env; Error naming path and line
// for a broken line or a missing version; an incomplete last line is ignored. Thread rule: one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/parallel/parameter_server/push_order.h"

namespace athanor::parallel::parameter_server {

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

}  // namespace athanor::parallel::parameter_server
