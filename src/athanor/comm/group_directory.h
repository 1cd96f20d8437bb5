// The table in shared memory by which the ranks of a world find each other when they make subgroups.
//
//   GroupDirectory directory(memory, rank, hooks);
//   const uint64_t range = directory.join({1, 3}, "odd ranks");     // the same number on both members
//   directory.leave(range);
//
// An entry has the group's name, its members and a range: the number of a piece of memory that no other group ever
// gets. The first member makes the entry, the others join it; once all have joined and left, the entry is free again. A
// lock word holds the number of the rank that changes the table: if that rank dies, the next one to wait for the lock
// throws PeerLost. Thread rule: a view; copy it freely, one thread of a rank at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::comm {

class GroupDirectory {
 public:
  struct Hooks {
    std::function<std::string(int rank)> death_of;  // why a rank of the world is dead, or ""
    // Called with the table locked: format the memory of a new group; break a group for `reason`.
    std::function<void(uint64_t range, int group_size)> format;
    std::function<void(uint64_t range, int group_size, const std::string& reason)> fail;
    std::function<void(uint64_t range, int group_size)> release;  // no rank uses this memory any more
  };

  static constexpr int kMaxRanks = 1024;
  static size_t bytes();
  // Zeroed memory of bytes() is an empty directory.
  GroupDirectory(void* memory, int rank, Hooks hooks);

  // Joins a group or makes it; returns its range. Error if another rank has other members for this name.
  uint64_t join(const std::vector<int>& members, const std::string& name);
  void leave(uint64_t range);

 private:
  struct Entry;
  struct Table;
  void lock();
  void unlock();
  Entry* find(uint64_t range) const;
  std::string conflict(const std::vector<int>& members, const std::string& name) const;

  Table* table_;
  int rank_;
  Hooks hooks_;
};

}  // namespace athanor::comm
