// Lets the emulated device's side streams work at once while it lives (tests/cuda/emulated/side_streams.h); without
// it, and by default, as late as they may.
#pragma once

#include <dlfcn.h>

#include <string>

#include "athanor/base/check.h"
#include "cuda/emulated/side_streams.h"

namespace athanor::tests {

class SideStreams {
 public:
  SideStreams(const std::string& plugin, bool at_once) {
    void* module = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* symbol = module == nullptr ? nullptr : dlsym(module, "athanor_emulated_side_streams");
    check(symbol != nullptr || !at_once, "test: {} is not the emulated device", plugin);
    set_ = reinterpret_cast<decltype(set_)>(symbol);
    if (at_once) set_(true);
  }
  ~SideStreams() {
    if (set_ != nullptr) set_(false);
  }
  SideStreams(const SideStreams&) = delete;
  SideStreams& operator=(const SideStreams&) = delete;

 private:
  decltype(&athanor_emulated_side_streams) set_ = nullptr;
};

}  // namespace athanor::tests
