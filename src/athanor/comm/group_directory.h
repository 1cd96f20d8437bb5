// Where the ranks of a world find the groups that they make of some of them: a table in the memory they share.
//
// A group has a name, its members, and the number of a range of memory that no other group ever gets. The first
// member that comes makes the entry, the others join it; when all have joined and left, it is free again. The
// table is guarded by a word that holds the number of the rank that works on it: should that rank die there, whoever
// waits finds out and gets PeerLost. Thread rule: a view; copy it freely, one thread of a rank at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace athanor {

class GroupDirectory {
 public:
  struct Hooks {
    std::function<std::string(int rank)> death_of;  // why a rank of the world is dead, or ""
    // With the table locked: formats the memory of a new group; breaks a group because of this.
    std::function<void(uint64_t range, int group_size)> format;
    std::function<void(uint64_t range, int group_size, const std::string& reason)> fail;
    std::function<void(uint64_t range, int group_size)> release;  // nobody will use this memory again
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

}  // namespace athanor
