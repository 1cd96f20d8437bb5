// A trained model in memory, with what is needed to compute with it: for evaluate and generate.
#pragma once

#include <memory>
#include <string>

#include "athanor/kernels/table.h"
#include "athanor/models/load.h"
#include "athanor/text/tokenizer.h"

namespace athanor {

struct ComputeOptions {
  std::string dtype;  // "": as the model was trained
  int threads = 0;    // 0: all usable processors
  std::string isa = "auto";
};

struct Loaded {
  Loaded(const std::string& path, const ComputeOptions& options);

  ThreadPool pool;
  std::unique_ptr<Queue> queue;
  Arena arena;
  LoadedModel loaded;
  std::shared_ptr<const Tokenizer> tokenizer;  // null where the checkpoint has none
};

}  // namespace athanor
