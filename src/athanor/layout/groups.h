// All groups of a run, made in one place from its layout. Each is the identity (a group of one) where the layout does
// not have it, so nothing that uses a group asks whether there is one.
//
//   Groups groups(layout, world);             // collective; every rank with the same layout
//   groups.tensor->all_reduce(y, count, Dtype::f32, "y").wait();    // over this rank's tp group
//   groups.dense.sum->all_reduce(dw, numel, Dtype::f32, "dw");      // over those that sum gradients of dense parameters
//
// The members are pointers so that a test can put a group with a fault in the place of one.
// Errors: those of World::make_group(). Thread rule: one thread. The world outlives the groups.
#pragma once

#include <memory>
#include <optional>

#include "athanor/layout/layout.h"

namespace athanor::layout {

struct ParameterGroups {  // of a ParameterGroup
  Group* sum = nullptr;
  Group* shard = nullptr;      // of hybrid sharding: ZeRO's shards lie over it; else `sum`
  Group* replicate = nullptr;  // hybrid sharding: the ranks with the same shard
  Group* average = nullptr;    // local SGD: this rank's counterparts in the other replica groups
};

struct Groups {
  Groups(const Layout& layout, World& world);
  World& world() const { return world_; }

  Group* all;       // every rank of the world
  Group* role;      // with servers: the ranks that train, or the servers; else all
  Group* exchange;  // with servers: every rank, for pushes and pulls; else all

  // Of the ranks that train:
  Group* tensor;
  Group* context;
  Group* pipeline;
  Group* pipeline_ends;  // tied embeddings: the ranks of the first and the last stage
  Group* data;           // dp x cp: they share the micro-batches of a step
  Group* losses;         // pp x dp x cp: over which losses are summed
  Group* balance;        // micro-batches shared by speed: among these ranks
  Group* experts;        // ep
  ParameterGroups dense, expert;

 private:
  World& world_;
  std::unique_ptr<Group> alone_, role_, exchange_, ends_;
  std::optional<Mesh> mesh_, expert_mesh_;
};

}  // namespace athanor::layout
