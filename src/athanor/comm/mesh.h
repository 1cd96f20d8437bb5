// A device mesh: the ranks of a world as a grid with named axes, and the groups along them.
//
//   Mesh mesh({.pp = 2, .dp = 2, .tp = 2}, world);            // 8 ranks; every rank with the same shape
//   mesh.coordinate(Axis::pp);                                // the pipeline stage of this rank
//   mesh.group(Axis::tp).all_reduce(...);                     // the ranks that differ from this one in tp only
//   mesh.group({Axis::dp, Axis::cp}).all_reduce(...);         // over which gradients of dense weights are summed
//
// Placement: rank = ((pp_i * dp + dp_i) * cp + cp_i) * tp + tp_i. The last axis varies fastest: the ranks of a tp group
// are consecutive, so launchers put them on one host. Stages are farthest apart, since they communicate least.
//
//   {pp 2, dp 2, tp 2}:   stage 0:  dp 0: ranks 0 1   dp 1: ranks 2 3        tp groups {0,1} {2,3} {4,5} {6,7}
//                         stage 1:  dp 0: ranks 4 5   dp 1: ranks 6 7        dp groups {0,2} {1,3} {4,6} {5,7}
//
// Expert layers use a second grid over the ranks of one stage: axis ep (expert parallel) partitions the experts, axis
// edp (expert data parallel) has the ranks with the same experts, over which gradients of expert weights are summed.
// With g = gcd(ep, tp) an ep group has g consecutive tp ranks on each of ep / g consecutive (dp, cp) ranks; where ep
// divides tp or tp divides ep, these are ep consecutive ranks. All ranks of a tp group see the same micro-batches in
// their ep groups. Where ep / g divides cp, all ranks of an ep group have the same micro-batches, and so have cp * tp /
// ep consecutive edp ranks (expert_parts).
//
// A group's ranks are in the order of the mesh: in {dp, cp} rank dp_i * cp + cp_i. Groups are made at first use and are
// the same for the same axes (axes of size 1 do not count); a group of one is the identity. The constructor compares
// the shapes of all ranks by a collective on world.all(), and names a rank with another config.
// `beyond`: the number of last ranks of the world that are not part of the mesh (parameter servers).
// Errors: Error for sizes below 1, a shape that does not have the size of the world, an ep that does not divide
// dp*cp*tp, and groups over ep or edp together with dp, cp or tp.
// Thread rule: one thread at a time. The world outlives the mesh.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "athanor/comm/world.h"

namespace athanor::comm {

enum class Axis { pp, dp, cp, tp, ep, edp };
constexpr int kNumAxes = 6;
const char* name_of(Axis axis);

struct MeshShape {
  int pp = 1, dp = 1, cp = 1, tp = 1, ep = 1;
  bool operator==(const MeshShape&) const = default;

  int size(Axis axis) const;
  int num_ranks() const { return pp * dp * cp * tp; }
  int coordinate(int rank, Axis axis) const;
  // The ranks that differ from this one in these axes only, ascending.
  std::vector<int> peers(int rank, std::initializer_list<Axis> axes) const;
  int expert_parts() const;  // cp * tp / ep, or 0 if an ep group spans data-parallel ranks
  std::string text() const;  // pp=2 dp=2 cp=1 tp=2 ep=1
  // What is wrong with the shape for num_ranks ranks, or "".
  std::string problem(int num_ranks) const;
};

class Mesh {
 public:
  Mesh(const MeshShape& shape, World& world, int beyond = 0);

  const MeshShape& shape() const { return shape_; }
  World& world() const { return world_; }
  int coordinate(Axis axis) const { return shape_.coordinate(world_.rank(), axis); }
  int size(Axis axis) const { return shape_.size(axis); }
  Group& group(Axis axis) { return group({axis}); }
  Group& group(std::initializer_list<Axis> axes);
  // What this rank has sent in all groups of the mesh.
  Traffic traffic() const;

 private:
  MeshShape shape_;
  World& world_;
  std::map<std::string, std::unique_ptr<Group>> groups_;  // by axes
};

}  // namespace athanor::comm
