// The journal of a Master: every input that it was told, in a SQLite file, so that another process can take up where it was.
// A master writes an input down before it decides anything by it. Of what a worker has told of its progress only the newest
// of each kind counts, so that is what is kept between two other inputs: the journal grows with what happens, not with the steps.
//
//   Journal journal(path);                                         // a new epoch: masters of older ones are fenced
//   Master master(options);
//   for (const MasterInput& input : journal.inputs()) tell(master, input);
//   journal.append(input);                                         // Error, if another master has taken over meanwhile
//
// What is appended survives a kill of the process, not a power cut: neither do the workers. Errors: Error for a fenced
// master and for a file that is no journal; IoError with SQLite's reason. Thread rule: one thread; several processes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "athanor/launch/master/master_inputs.h"

struct sqlite3;

namespace athanor::launch::master {

class Journal {
 public:
  explicit Journal(const std::string& path);  // made if it is not there
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  int64_t epoch() const { return epoch_; }  // from 1
  struct Numbered {
    int64_t number;
    MasterInput input;
  };
  std::vector<Numbered> numbered_inputs() const;
  std::vector<MasterInput> inputs() const;
  int64_t size() const { return size_; }  // how many inputs it was told
  void append(const MasterInput& input);

 private:
  void run(const char* statement) const;
  int64_t number(const char* query) const;

  struct Close {
    void operator()(sqlite3* database) const;
  };
  std::string path_;
  std::unique_ptr<sqlite3, Close> database_;
  int64_t epoch_ = 0, size_ = 0;
  int64_t last_other_ = 0;  // the number of the last input that is no progress
};

}  // namespace athanor::launch::master
