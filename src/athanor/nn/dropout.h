// Dropout with its own stream of random numbers, named by the module's path (law 2).
//
//   Dropout dropout(&block, "attn_dropout", 0.1);
//   Var y = dropout(x);                             // the identity outside training
//
// Thread rule: that of the model.
#pragma once

#include "athanor/base/philox.h"
#include "athanor/nn/module.h"
#include "athanor/ops/ops.h"

namespace athanor::nn {

class Dropout : public Module {
 public:
  Dropout(Module* parent, const std::string& name, double rate)
      : Module(parent, name), stream_(path()), rate_(static_cast<float>(rate)) {}
  bool drops(const Tape& tape) const { return rate_ != 0.0f && tape.context().dropout; }
  Var operator()(const Var& x) const {
    return rate_ == 0.0f ? x : dropout(x, rate_, RandomStream(x.tape->context().seed, stream_).key(), part_);
  }
  void deal_tokens(int rank, int size) override { part_ = {rank, size}; }

 private:
  std::string stream_;
  float rate_;
  TokenPart part_;
};

}  // namespace athanor::nn
