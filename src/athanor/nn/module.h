// A Module: a named part of a model that declares parameters. Modules form a tree; a parameter's name is the
// path of its module plus its own name: "blocks.3.attn.q.weight".
//
//   struct Mlp : Module {
//     Mlp(Module* parent, ...) : Module(parent, "mlp"), up(this, "up", ...), down(this, "down", ...) {}
//     Linear up, down;
//   };
//
// Declaring allocates nothing: a model is declared, then (later) sharded, then its parameters are allocated.
// Thread rule: a model is used by one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "athanor/autograd/param.h"

namespace athanor {

class Module {
 public:
  Module(Module* parent, std::string name);
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  std::string path() const;  // "" for the root
  const std::vector<Module*>& children() const { return children_; }

  // All parameters and all their uses below the root, in the order of declaration. Only the root has them.
  const std::vector<std::unique_ptr<Param>>& params() const { return root().params_; }
  const std::vector<Weight*>& weights() const { return root().weights_; }

 protected:
  Weight& declare(const std::string& name, const Shape& shape, Init init);
  Weight& share(Param& param);  // one more use of a parameter declared elsewhere

 private:
  Module& root() const;

  Module* parent_;
  std::string name_;
  std::vector<Module*> children_;
  std::vector<std::unique_ptr<Param>> params_;
  std::vector<Weight*> weights_;
};

}  // namespace athanor
