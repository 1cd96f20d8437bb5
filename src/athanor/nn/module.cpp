#include "athanor/nn/module.h"

namespace athanor::nn {

Module::Module(Module* parent, std::string name) : parent_(parent), name_(std::move(name)) {
  if (parent_ != nullptr) parent_->children_.push_back(this);
}

std::string Module::path() const {
  if (parent_ == nullptr) return "";
  const std::string above = parent_->path();
  return above.empty() ? name_ : above + "." + name_;
}

const Module& Module::child(const std::string& name) const {
  for (const Module* module : children_)
    if (module->name_ == name) return *module;
  fail("model: '{}' has no part '{}'", path(), name);
}

Module& Module::root() const {
  auto* module = const_cast<Module*>(this);
  while (module->parent_ != nullptr) module = module->parent_;
  return *module;
}

void Module::keep_uses(const std::function<bool(const std::string& module)>& here) {
  Module& top = root();
  std::erase_if(top.weights_, [&](const Weight* use) { return !here(use->use()); });
  std::vector<std::unique_ptr<Param>> kept;
  for (auto& param : top.params_) {
    param->keep_uses(here);
    const bool is_here = param->is_state() ? here(param->name()) : !param->uses().empty();
    (is_here ? kept : top.elsewhere_).push_back(std::move(param));
  }
  top.params_ = std::move(kept);
}

void Module::for_each_declared(const std::function<void(const ParamSpec&)>& visit) const {
  for (const auto* params : {&root().params_, &root().elsewhere_})
    for (const auto& param : *params) visit(*param);
}

Weight& Module::declare(const std::string& name, const Shape& shape, Init init) {
  return share(add_param(name, shape, init, /*is_state=*/false));
}

Param& Module::declare_state(const std::string& name, const Shape& shape, Init init) {
  return add_param(name, shape, init, /*is_state=*/true);
}

Param& Module::add_param(const std::string& name, const Shape& shape, Init init, bool is_state) {
  Module& top = root();
  const std::string full = path().empty() ? name : path() + "." + name;
  for (const auto& other : top.params_)
    check(other->name() != full, "model: two parameters are named '{}'", full);
  top.params_.push_back(std::make_unique<Param>(full, shape, init, is_state));
  own_params_.push_back(top.params_.back().get());
  return *top.params_.back();
}

Weight& Module::share(Param& param) {
  Weight& use = param.add_use(path().empty() ? name_ : path());
  root().weights_.push_back(&use);
  return use;
}

}  // namespace athanor::nn
