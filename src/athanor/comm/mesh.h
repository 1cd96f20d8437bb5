// A device mesh: ranks as a grid with named axes, and the groups along them.
//
//   Mesh mesh({{"pp", 2}, {"dp", 2}, {"tp", 2}}, world);    // 8 ranks; every rank with the same axes
//   mesh.coordinate("pp");                                  // the pipeline stage of this rank
//   mesh.group({"tp"}).all_reduce(...);                     // the ranks that differ from this one in tp only
//   mesh.group({"dp", "tp"}).all_reduce(...);               // those of this stage
//
// The last axis varies fastest: the ranks of a tp group are consecutive, so launchers put them on one host.
//
//   pp 2, dp 2, tp 2:   stage 0:  dp 0: ranks 0 1   dp 1: ranks 2 3        tp groups {0,1} {2,3} {4,5} {6,7}
//                       stage 1:  dp 0: ranks 4 5   dp 1: ranks 6 7        dp groups {0,2} {1,3} {4,6} {5,7}
//
// A mesh may leave out the last ranks of its world (parameter servers). It knows names and sizes only: which axes a run
// has, and what its groups are for, is said by layout/.
// A group's ranks are in the order of the mesh. Groups are made at first use and are the same for the same axes (axes
// of size 1 do not count); a group of one is the identity. The constructor compares the axes of all ranks by a
// collective on world.all(), and names a rank with other ones.
// Errors: Error for sizes below 1, two axes of one name, an axis that the mesh does not have, and more ranks than the
// world has. Thread rule: one thread at a time. The world outlives the mesh.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/comm/world.h"

namespace athanor::comm {

struct MeshAxis {
  std::string_view name;  // of static storage
  int size = 1;
  bool operator==(const MeshAxis&) const = default;
};
using AxisNames = std::vector<std::string_view>;

class MeshShape {
 public:
  MeshShape(std::vector<MeshAxis> axes);
  bool operator==(const MeshShape&) const = default;

  int num_ranks() const;
  int size(std::string_view axis) const;
  int coordinate(int rank, std::string_view axis) const;
  // The ranks that differ from this one in these axes only, ascending.
  std::vector<int> peers(int rank, const AxisNames& axes) const;
  std::string text() const;  // pp=2 dp=2 tp=2
  std::string text_of(
      const AxisNames& axes) const;  // "dp x tp": those of size above 1, in the order of the mesh

 private:
  size_t index_of(std::string_view axis) const;
  std::vector<MeshAxis> axes_;
};

class Mesh {
 public:
  Mesh(MeshShape shape, World& world);

  const MeshShape& shape() const { return shape_; }
  int coordinate(std::string_view axis) const { return shape_.coordinate(world_.rank(), axis); }
  int size(std::string_view axis) const { return shape_.size(axis); }
  Group& group(const AxisNames& axes);

 private:
  MeshShape shape_;
  World& world_;
  std::map<std::string, std::unique_ptr<Group>> groups_;  // by axes
};

}  // namespace athanor::comm
