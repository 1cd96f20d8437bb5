// Buckets: which weights are reduced and gathered together, in the order in which the backward pass completes them
// (about the reverse of their declaration).
//
//   const Buckets buckets(model.weights(), {.rows = 4, .bucket_bytes = 16 << 20, .by_unit = true});
//   buckets.list[i].layout        // where the weights of bucket i lie in its flat buffer
//   buckets.of(weight)            // {bucket, place in it}
//
// A bucket holds about an eighth of the floats and at most bucket_bytes of them, but one weight at least. Cut into
// rows, the uses of a shared parameter get buckets of their own, all with one layout, so that each rank keeps the
// same elements of every use; with uses_apart they do so with one row, too. A unit is what a pass needs at a time: the
// parameters of a block ("blocks.3."), and those that are declared between blocks; with by_unit no bucket has
// parameters of two.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "athanor/autograd/param.h"
#include "athanor/parallel/shard_layout.h"

namespace athanor {

struct Bucket {
  std::vector<Weight*> weights;
  ShardLayout layout;
  int64_t first = 0;      // of the bucket in a flat buffer of all buckets
  int64_t row_first = 0;  // of its row in a flat buffer of the rows of all buckets
  int unit = 0;           // numbered in the order of declaration
};

// For messages: 'blocks.3.ffn.down', or the first and the last of several.
std::string names_of(const Bucket& bucket);

struct BucketOptions {
  int rows = 1;
  int64_t bucket_bytes = 16 << 20;
  bool by_unit = false;
  bool uses_apart = false;
  std::function<int(const Weight&)> section = {};  // no bucket has weights of two; empty: all are of one
};

struct Buckets {
  struct Place {
    size_t bucket, slot;
  };
  Buckets(const std::vector<Weight*>& weights, const BucketOptions& options);
  const Place& of(const Weight& weight) const { return places.at(&weight); }
  // Of the bucket the parameters whose first use it has: with uses apart, those of all slots or of none.
  std::vector<Param*> params(size_t bucket) const;

  std::vector<Bucket> list;
  std::unordered_map<const Weight*, Place> places;
  int num_units = 0;
  int64_t total = 0, row_total = 0;  // elements of all buckets, of one row of each
};

}  // namespace athanor
