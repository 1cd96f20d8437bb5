// Rows of a table by token id, plus rows of a learned position table where there is one.
// ids [B,S] i32 -> [B,S,C]
#pragma once

#include "athanor/nn/module.h"
#include "athanor/ops/ops.h"

namespace athanor {

class TokenEmbedding : public Module {
 public:
  TokenEmbedding(Module* parent, const std::string& name, int64_t vocab, int64_t width, double init_std)
      : Module(parent, name), table_(declare("weight", {vocab, width}, Init::normal(init_std))) {}
  Weight& table() const { return table_; }

 private:
  Weight& table_;
};

}  // namespace athanor
