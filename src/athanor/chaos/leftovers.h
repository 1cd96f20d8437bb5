// What a job leaves behind when it has ended: processes, shared memory without a name (memfds) that somebody still holds,
// and folders of its control socket.
//
//   JobTraces traces;                               // before the job starts
//   start(traces.mark(environment));                // its processes carry a mark, and its sockets lie in a folder of its own
//   traces.note_memory(pid);                        // while it runs: the memfds that this process holds
//   traces.leftovers();                             // {"process 4711 (athanor train run.toml)"}; ends them
//
// A process that still runs is given kGraceMs to end by itself. A memfd is named with its holder, which may be any process
// of this user. Errors: IoError where there is no temporary folder. Thread rule: one thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::chaos {

bool is_socket_folder(const std::string& leftover);  // as leftovers() names one

class JobTraces {
 public:
  static constexpr int64_t kGraceMs = 1'000;

  JobTraces();
  ~JobTraces();
  JobTraces(const JobTraces&) = delete;
  JobTraces& operator=(const JobTraces&) = delete;

  std::vector<std::string> mark(const std::vector<std::string>& environment) const;
  void note_memory(pid_t process);
  std::vector<std::string> leftovers();

  const std::string& runtime_folder() const { return runtime_folder_; }

 private:
  std::vector<pid_t> marked_processes() const;

  std::string runtime_folder_;                      // its name is the mark
  std::set<std::pair<uint64_t, uint64_t>> memory_;  // device and inode
};

}  // namespace athanor::chaos
