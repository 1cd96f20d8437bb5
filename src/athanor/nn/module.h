// A Module: a named part of a model that declares parameters, like torch.nn.Module. Modules form a tree. A parameter's
// name is the path of its module plus its own name: "blocks.3.attn.q.weight".
//
//   struct Mlp : Module {
//     Mlp(Module* parent, ...) : Module(parent, "mlp"), up(this, "up", ...), down(this, "down", ...) {}
//     Linear up, down;
//   };
//
// A model declares its parameters in units, what a pass needs at a time: the embedding is unit 0, each block and what
// ends the model is one more (begin_unit()). Pipeline stages and ZeRO-3 go by the unit of a Weight or Param.
//
// Declaring allocates nothing: a model is declared, perhaps sharded (parallel/tensor/sharding.h), then its parameters
// are allocated. Module code is written for a single device. A layout inserts its collectives as hooks: enter(x) at the
// module's input, leave(y) at its output. Errors: Error. Thread rule: a model is used by one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "athanor/autograd/tape.h"

namespace athanor::nn {

class Module {
 public:
  Module(Module* parent, std::string name);
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  using Hook = std::function<Var(const Var&)>;
  Var enter(const Var& x) const { return input_ ? input_(x) : x; }
  Var leave(const Var& y) const { return output_ ? output_(y) : y; }
  bool leaves() const { return static_cast<bool>(output_); }  // whether leave() is not the identity
  void set_hooks(Hook input, Hook output) {
    input_ = std::move(input);
    output_ = std::move(output);
  }
  // Sequence parallelism: from now on the module's input is part `rank` of `size` of the pass's tokens.
  virtual void deal_tokens(int /*rank*/, int /*size*/) {}

  std::string path() const;  // "" for the root
  const std::vector<Module*>& children() const { return children_; }

  // All parameters of the model and all their uses, in declaration order; the same from every module of the tree.
  // Without those that keep_units() has removed.
  const std::vector<std::unique_ptr<Param>>& params() const { return root().params_; }
  const std::vector<Weight*>& weights() const { return root().weights_; }
  // The parameters that this module itself declared.
  const std::vector<Param*>& own_params() const { return own_params_; }
  // Keeps the uses in units for which `here` is true, and the parameters that still have a use. The others belong to
  // another rank: they stay declared, but get no memory on this one.
  void keep_units(const std::function<bool(int unit)>& here);
  // On this rank or another, in any order.
  void for_each_declared(const std::function<void(const ParamSpec&)>& visit) const;

  // Called by the module itself, or by a parent that declares parameters under the module's name.
  Weight& declare(const std::string& name, const Shape& shape, Init init, ParamKind kind = ParamKind::weight);
  Param& declare_state(const std::string& name, const Shape& shape, Init init);  // Param::is_state()

 protected:
  Weight& share(Param& param);           // one more use of a parameter declared elsewhere
  void begin_unit() { ++root().unit_; }  // what the tree declares from now on belongs to its next unit

 private:
  Module& root() const;
  Param& add_param(const std::string& name, const Shape& shape, Init init, ParamKind kind);

  Module* parent_;
  std::string name_;
  int unit_ = 0;  // the root's: that of the next declaration
  Hook input_, output_;
  std::vector<Module*> children_;
  std::vector<Param*> own_params_;
  std::vector<std::unique_ptr<Param>> params_, elsewhere_;
  std::vector<Weight*> weights_;
};

}  // namespace athanor::nn
