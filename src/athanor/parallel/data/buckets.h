// Buckets: which weights are reduced and all-gathered as one message, in the order in which the backward pass completes
// them (about the reverse of their declaration).
//
//   const Buckets buckets(model.weights(), {.rows = 4, .bucket_bytes = 16 << 20, .by_unit = true});
//   buckets.list[i].layout        // where the weights of bucket i lie in its flat buffer
//   buckets.of(weight)            // {bucket, place in it}
//
// Size: about an eighth of all floats, at most bucket_bytes, and one weight at least.
// Unit (as an FSDP unit): what a pass needs at a time, as the model declares it (nn/module.h). With by_unit no bucket
// has parameters of two units.
// A parameter used twice (tied embeddings) has one gradient per use. With several rows (`rows` ranks, ZeRO) each use is
// in a bucket of its own and all have one layout, so a rank's shard has the same elements of every use. uses_apart asks
// for that with one row, too.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "athanor/autograd/param.h"
#include "athanor/parallel/data/shard_layout.h"

namespace athanor::parallel::data {

struct Bucket {
  std::vector<Weight*> weights;
  ShardLayout layout;
  int64_t first = 0;      // offset of the bucket in a flat buffer of all buckets
  int64_t row_first = 0;  // offset of a rank's row of it in a flat buffer of that rank's rows of all buckets
  int unit = 0;           // counts the units that have weights here, in the order of declaration
};

// For messages: 'blocks.3.ffn.down', or the first and the last of several.
std::string names_of(const Bucket& bucket);

struct BucketOptions {
  int rows = 1;
  int64_t bucket_bytes = 16 << 20;
  bool by_unit = false;
  bool uses_apart = false;
  // Weights of two sections share no bucket; empty: one section
  std::function<int(const Weight&)> section = {};
};

struct Buckets {
  struct Place {
    size_t bucket, slot;
  };
  Buckets(const std::vector<Weight*>& weights, const BucketOptions& options);
  const Place& of(const Weight& weight) const { return places.at(&weight); }
  // The parameters whose first use is in the bucket. Where uses have buckets of their own: all of its weights, or none.
  std::vector<Param*> params(size_t bucket) const;

  std::vector<Bucket> list;
  std::unordered_map<const Weight*, Place> places;
  int num_units = 0;
  int64_t total = 0, row_total = 0;  // elements of all buckets, of one row of each
};

}  // namespace athanor::parallel::data
