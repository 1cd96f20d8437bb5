// A World: all ranks of a job as one transport connects them, and the groups made of any of them.
//
//   auto worlds = make_thread_worlds(4);                             // comm/shm/thread.h; comm/shm/shm.h for processes
//   run_ranks(worlds, [](World& world) {
//     if (world.rank() % 2 == 1) {
//       auto odd = world.make_group({1, 3}, "odd ranks");            // the other ranks make no call
//       odd->broadcast(...);                                         // root 0 is rank 1 of the world
//     }
//   });
//
// Only members call make_group(), all with the same list. It waits for no other rank, so a rank may make its groups in
// any order. The first collective of a group waits for members that have not joined, and names one that is late, lost
// or gone (law 8). Ranks of a group are numbered by their order in the list; messages show both numbers, `rank 1 (3 of
// the world)`.
//
// A world that is formed again after a failure has the next generation. A rank of another generation is refused where
// the ranks meet, with both numbers. Its late messages are refused, too. Messages name a generation above 0: "group 'tp'
// of generation 2".
//
// Names: two groups that share a rank must have different names, unless they have the same members and the first is
// destroyed before the second is made. Members that give different lists for one name all get an Error: "group 'tp':
// rank 1 says its members are 0, 1; rank 0 says 0, 1, 2".
//
// Groups have the world's options and may outlive the World. A rank whose World is destroyed has left: ranks that wait
// for it to join a group get PeerLost. abort(), any failure of all() and the death of a rank break all groups of the
// world; any other failure of a group breaks only that one.
//
// A subset is a world of some ranks, in front of this one:
//
//   auto workers = world.subset({0, 1, 2}, "workers");                 // rank 3 makes no call
//   workers->all().barrier(...);                                       // one group, named "workers"
//   workers->make_group({1, 2}, "pair");                               // ranks of the subset; named "workers/pair"
//
// Ranks of a subset are numbered by their order; its groups are this world's, of the same transport, and their messages
// name both numbers of a rank. Groups of two subsets never have one name. abort() of a subset and any failure of its
// all() break the groups made of it and no other: a group hears of it at a member's next call, at most 25 ms later.
// Errors: make_group and subset throw Error for a list that is not ascending, is out of range or lacks the caller, and
// for a second group of one name; Recoverable if the world is broken.
// Thread rule: one thread makes groups; abort() from any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "athanor/comm/group.h"

namespace athanor::comm {

class World {
 public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // How often the world has been formed again after a failure (GroupOptions::generation).
  virtual int generation() const { return 0; }
  virtual Group& all() = 0;
  // Memory of this rank that its groups can share (Group::share): zeroed, page-aligned. It belongs to the caller and
  // outlives the world and its groups. IoError if the system has no more memory. Any thread.
  virtual std::shared_ptr<std::byte> allocate(size_t size_bytes) = 0;
  // `members`: ranks of the world, ascending. A group of one is make_single_group().
  virtual std::unique_ptr<Group> make_group(std::vector<int> members, std::string name) = 0;
  virtual void abort(const std::string& reason) = 0;
  // Members call it as make_group(). This world outlives it.
  std::unique_ptr<World> subset(std::vector<int> members, const std::string& name);
};

// A world of one rank.
std::unique_ptr<World> make_single_world();

// Error unless `members` is an ascending list of ranks with the world's own rank; returns that rank's index in it.
int check_members(const World& world, const std::vector<int>& members, const std::string& name);

// "0-3, 6"
std::string members_text(const std::vector<int>& members);

}  // namespace athanor::comm
