// A Module: a named part of a model that declares parameters. Modules form a tree; a parameter's name is the
// path of its module plus its own name: "blocks.3.attn.q.weight".
//
//   struct Mlp : Module {
//     Mlp(Module* parent, ...) : Module(parent, "mlp"), up(this, "up", ...), down(this, "down", ...) {}
//     Linear up, down;
//   };
//
// Declaring allocates nothing: a model is declared, then perhaps sharded (parallel/sharding.h), then its
// parameters are allocated. A module computes as one device sees it, from enter(its input) to leave(its
// output): that is where a layout puts its collectives. Thread rule: a model is used by one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "athanor/autograd/tape.h"

namespace athanor {

class Module {
 public:
  Module(Module* parent, std::string name);
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  using Hook = std::function<Var(const Var&)>;
  Var enter(const Var& x) const { return input_ ? input_(x) : x; }
  Var leave(const Var& y) const { return output_ ? output_(y) : y; }
  bool leaves() const { return static_cast<bool>(output_); }  // is leave() more than the identity?
  void set_hooks(Hook input, Hook output) {
    input_ = std::move(input);
    output_ = std::move(output);
  }
  // From now on the module's input is part `rank` of `size` of the pass's tokens (sequence parallelism).
  virtual void deal_tokens(int /*rank*/, int /*size*/) {}

  std::string path() const;  // "" for the root
  const std::vector<Module*>& children() const { return children_; }
  const Module& child(const std::string& name) const;  // Error if there is none

  // All parameters and all their uses below the root, in the order of declaration. Only the root has them.
  // Without those that keep_uses() has sent elsewhere.
  const std::vector<std::unique_ptr<Param>>& params() const { return root().params_; }
  const std::vector<Weight*>& weights() const { return root().weights_; }
  // Those that this module itself declared.
  const std::vector<Param*>& own_params() const { return own_params_; }
  // Keeps the uses whose module `here` says yes to, and the parameters that still have one. The others are
  // another rank's: they stay declared, but have no memory here.
  void keep_uses(const std::function<bool(const std::string& module)>& here);
  void for_each_declared(
      const std::function<void(const Param&)>& visit) const;  // here or elsewhere, in any order

  // For the module itself and for those that give it a name of its own to declare under.
  Weight& declare(const std::string& name, const Shape& shape, Init init);
  Param& declare_state(const std::string& name, const Shape& shape, Init init);  // Param::is_state()

 protected:
  Weight& share(Param& param);  // one more use of a parameter declared elsewhere

 private:
  Module& root() const;
  Param& add_param(const std::string& name, const Shape& shape, Init init, bool is_state);

  Module* parent_;
  std::string name_;
  Hook input_, output_;
  std::vector<Module*> children_;
  std::vector<Param*> own_params_;
  std::vector<std::unique_ptr<Param>> params_, elsewhere_;
  std::vector<Weight*> weights_;
};

}  // namespace athanor
