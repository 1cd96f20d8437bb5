// What the launcher writes into the folder of its run: events.jsonl, and report.json, of which it is the only writer. Of its
// two processes the agent writes them: ranks tell it what they do, it lives as long as they, and it acts on what a master has
// decided only when it has all of it. So a master may die at any instant, and no line is torn, missing or there twice. Of the
// master it takes the events that are decided, and goodput, which that counts from its journal.
//
//   JobRecord record(env, {.pid = getpid(), .host = host}, warn);
//   record.open("runs/first");                           // as soon as the folder is known
//   record.begun("runs/first");                          // a world has begun in it: events are written from here on
//   record.add({.event = "failure", .rank = 1});
//   if (now >= record.next_ns()) record.renew(goodput, now);
//   record.finish(exit_code, "rank 1 was killed by signal 9 (SIGKILL)", goodput);
//
// report.json is what rank 0 says (report.run.json), with this process's number, host and the time, which is renewed
// once a second, and with goodput, incidents and the seconds that they cost (observe/incidents.h). While the launcher lives
// its status is "running". A report.run.json that an earlier launch has left is not this one's: nothing is written until
// it changes. What cannot be written is said once and tried again. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "athanor/base/file.h"
#include "athanor/launch/job_file.h"
#include "athanor/launch/master_values.h"
#include "athanor/observe/event_log.h"
#include "athanor/observe/incidents.h"

namespace athanor::launch {

class JobRecord {
 public:
  JobRecord(Env& env, JobPlace writer, std::function<void(const std::string&)> warn);

  void open(const std::string& run_folder);   // the first one counts
  void begun(const std::string& run_folder);  // the same, and events go there
  void add(const observe::RunEvent& event);
  // Where another process has written for this job, and is gone: what it wrote stands. It may have been killed just when it had
  // written its last event: that one is known if it is the first to be added again.
  void go_on(const std::string& run_folder);

  std::string begun_in() const { return has_begun_ ? run_folder_ : ""; }
  int64_t next_ns() const { return run_folder_.empty() ? kNeverNs : next_ns_; }
  void renew(double goodput, int64_t now_ns);
  void finish(int exit_code, const std::string& summary, double goodput);

 private:
  std::string run_report() const;  // "": there is none, or it is an earlier launch's
  void write(const std::string& run_report, const std::string& status, const std::string& reason,
             double goodput);
  bool says_running() const;  // report.json does

  Env* env_;
  JobPlace writer_;
  std::function<void(const std::string&)> warn_;
  observe::EventLog events_;
  observe::Incidents incidents_;
  std::optional<observe::RunEvent> last_of_other_;
  std::string run_folder_, found_;  // found_: the report.run.json that lay there
  int64_t next_ns_ = 0;
  bool has_begun_ = false, has_warned_ = false;
};

}  // namespace athanor::launch
