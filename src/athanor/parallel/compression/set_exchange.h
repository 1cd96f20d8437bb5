// Hybrid sharding with compressed gradients: a bucket that a set of ranks has summed, on its way to the other sets as
// codes and back.
//
//   SetExchange exchange(buckets, inner, compressed, clock);
//   exchange.start({bucket, whole, row, std::move(work)});   // when the work is done this rank has what it codes
//   exchange.finish();                                       // `row` of every bucket has the sum of all sets
//
// Where shares are coded that is `row`; else the owner of the bucket has `whole`, codes it, and deals its rows out again.
// Each bucket waits until the next is on its way. Collective; errors: the groups'. Thread rule: one thread.
#pragma once

#include <deque>

#include "athanor/parallel/compression/compressed_gradients.h"

namespace athanor {

class SetExchange {
 public:
  struct Sum {
    size_t bucket;
    Tensor whole;  // f32 [rows * count]; on other ranks than the owner it does not count
    Tensor row;    // f32 [count], this rank's
    Work arriving;
  };
  SetExchange(const Buckets& buckets, Group& inner, CompressedGradients& compressed, WaitClock& clock)
      : buckets_(buckets), inner_(inner), compressed_(compressed), clock_(clock) {}

  bool active() const { return compressed_.active(); }
  bool codes_shares() const { return compressed_.codes_shares(); }
  int owner(size_t bucket) const { return compressed_.owner(bucket); }
  void begin_step() { arriving_.clear(), coded_.clear(); }  // of a step that failed
  void start(Sum sum);
  void finish();

 private:
  void code_oldest();

  const Buckets& buckets_;
  Group& inner_;
  CompressedGradients& compressed_;
  WaitClock& clock_;
  std::deque<Sum> arriving_, coded_;
};

}  // namespace athanor
