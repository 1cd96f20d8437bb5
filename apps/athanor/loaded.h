// A trained model in memory with everything needed to run it, for evaluate and generate.
#pragma once

#include <memory>
#include <string>

#include "athanor/kernels/table.h"
#include "athanor/models/load.h"
#include "athanor/text/tokenizer.h"

namespace athanor::apps {

struct ComputeOptions {
  std::string dtype;  // "": the compute dtype that the model was trained with
  int threads = 0;    // 0: all usable processors
  std::string isa = "auto";
};

struct Loaded {
  Loaded(const std::string& path, const ComputeOptions& options);

  ThreadPool pool;
  std::unique_ptr<Queue> queue;
  Arena arena;
  LoadedModel loaded;
  std::shared_ptr<const Tokenizer> tokenizer;  // null if the checkpoint has none
};

}  // namespace athanor::apps
