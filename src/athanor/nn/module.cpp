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

Module& Module::root() const {
  auto* module = const_cast<Module*>(this);
  while (module->parent_ != nullptr) module = module->parent_;
  return *module;
}

void Module::keep_units(const std::function<bool(int unit)>& here) {
  Module& top = root();
  std::erase_if(top.weights_, [&](const Weight* use) { return !here(use->unit()); });
  std::vector<std::unique_ptr<Param>> kept;
  for (auto& param : top.params_) {
    param->keep_uses(here);
    const bool is_here = param->is_state() ? here(param->unit()) : !param->uses().empty();
    (is_here ? kept : top.elsewhere_).push_back(std::move(param));
  }
  top.params_ = std::move(kept);
}

void Module::for_each_declared(const std::function<void(const ParamSpec&)>& visit) const {
  for (const auto* params : {&root().params_, &root().elsewhere_})
    for (const auto& param : *params) visit(*param);
}

Weight& Module::declare(const std::string& name, const Shape& shape, Init init, ParamKind kind) {
  return share(add_param(name, shape, init, kind));
}

Param& Module::declare_state(const std::string& name, const Shape& shape, Init init) {
  return add_param(name, shape, init, ParamKind::state);
}

Param& Module::add_param(const std::string& name, const Shape& shape, Init init, ParamKind kind) {
  Module& top = root();
  const std::string full = path().empty() ? name : path() + "." + name;
  for (const auto& other : top.params_)
    check(other->name() != full, "model: two parameters are named '{}'", full);
  top.params_.push_back(std::make_unique<Param>(full, shape, init, kind, top.unit_));
  own_params_.push_back(top.params_.back().get());
  return *top.params_.back();
}

Weight& Module::share(Param& param) {
  Module& top = root();
  Weight& use = param.add_use(path().empty() ? name_ : path(), top.unit_);
  top.weights_.push_back(&use);
  return use;
}

}  // namespace athanor::nn
