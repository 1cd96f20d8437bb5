// launcher.json in the folder of a run: says which launcher trains the run and where it listens to its operator. The
// launcher locks it for as long as it lives, so that no second one trains the same run.
//
//   JobFile file;
//   file.take("runs/first", {.pid = getpid(), .host = host, .socket = desk.path()});     // if the folder is there
//   if (auto job = read_job_file("runs/first")) PacketChannel::connect(job->socket);
//
// The destructor removes the file. One that a killed launcher has left is not locked, and the next one takes it over.
// Errors: Error where another launcher has it, naming its process; IoError with the system's reason. Thread rule: one
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "athanor/control/descriptor.h"

namespace athanor::launch {

constexpr const char* kJobFileName = "launcher.json";

struct JobPlace {
  int64_t pid = 0;
  std::string host{}, socket{};
};
JobPlace this_place();  // of this process, without a socket

class JobFile {
 public:
  JobFile() = default;
  ~JobFile();
  JobFile(const JobFile&) = delete;
  JobFile& operator=(const JobFile&) = delete;

  // Does nothing where the folder is not there yet, or if it has the file already.
  void take(const std::string& run_folder, const JobPlace& place);
  // Goes on with the file at `path` of a launcher that is gone, whose lock `file` holds.
  void adopt(const std::string& path, Descriptor file, const JobPlace& place);

  const std::string& path() const { return path_; }  // "": it has none
  int fd() const { return file_.get(); }

 private:
  void write(const JobPlace& place);

  std::string path_;
  control::Descriptor file_;  // locked
};

// The launcher that trains the run, or was killed when it did: then nobody listens at its socket. None: no launcher does.
std::optional<JobPlace> read_job_file(const std::string& run_folder);

}  // namespace athanor::launch
