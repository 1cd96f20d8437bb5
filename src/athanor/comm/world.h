// A World: what a transport gives to a process. All ranks, and groups of any of them.
//
//   auto worlds = make_thread_worlds(4);                             // comm/thread.h; comm/shm.h for processes
//   run_ranks(worlds, [](World& world) {
//     if (world.rank() % 2 == 1) {
//       auto odd = world.make_group({1, 3}, "odd ranks");            // nobody else needs to know
//       odd->broadcast(...);                                         // root 0 is rank 1 of the world
//     }
//   });
//
// Groups are made when they are needed. Only members call make_group(), all with the same list; a rank may make its
// groups in any order, since nobody waits there: a member that has not come is waited for by the first collective,
// which names it when it is late, lost or gone (law 8). Members are numbered in the group by their order in the list;
// messages name both numbers, `rank 1 (3 of the world)`.
//
// A name belongs to its members: two groups that share a rank have different names, unless they have the same
// members and one is made after the other is gone. A rank that brings another list for a name gets an Error, and so
// do those that it would have met: "group 'tp': rank 1 says its members are 0, 1; rank 0 says 0, 1, 2".
//
// Groups have the world's options. They may outlive the World, but a rank whose World is gone has left: others that
// wait for it to join a group get PeerLost. abort(), every failure of all() and the death of a rank, whoever finds it, break
// all groups of the world; any other failure of a group breaks only that one.
// Errors: make_group throws Error for a list that is not ascending, is out of range or lacks the caller, and for a
// second group of one name; Recoverable if the world is broken.
// Thread rule: one thread makes groups; abort() from any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "athanor/comm/group.h"

namespace athanor {

class World {
 public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual Group& all() = 0;
  // `members`: ranks of the world, ascending. A group of one is make_single_group().
  virtual std::unique_ptr<Group> make_group(std::vector<int> members, std::string name) = 0;
  virtual void abort(const std::string& reason) = 0;
};

// One rank.
std::unique_ptr<World> make_single_world();

// Error unless members are an ascending list of ranks of the world with its own; returns the own place in it.
int check_members(const World& world, const std::vector<int>& members, const std::string& name);

// "0-3, 6"
std::string members_text(const std::vector<int>& members);

}  // namespace athanor
