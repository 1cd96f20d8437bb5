// A table of rows by token id or position: declares the weight [vocab, width] that ops::embedding looks up.
//
//   TokenEmbedding embed(&model, "embed", vocab, width, init_std);
//   Var x = embedding(tape, ids, embed.table(), /*positions=*/nullptr, 0);   // ids [B,S] i32 -> [B,S,C]
//
// Thread rule: that of the model.
#pragma once

#include "athanor/nn/module.h"
#include "athanor/ops/ops.h"

namespace athanor::nn {

class TokenEmbedding : public Module {
 public:
  TokenEmbedding(Module* parent, const std::string& name, int64_t vocab, int64_t width, double init_std)
      : Module(parent, name),
        table_(declare("weight", {vocab, width}, Init::normal(init_std), ParamKind::table)) {}
  Weight& table() const { return table_; }

 private:
  Weight& table_;
};

}  // namespace athanor::nn
