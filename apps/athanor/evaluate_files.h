// athanor evaluate MODEL FILE...: how well a model predicts the documents of files and folders.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loaded.h"

namespace athanor::apps {

struct EvaluateFiles {
  std::vector<std::string> paths;
  std::string by;        // "document": a line for each document; otherwise only sums
  std::string text_key;  // "": the run's
  int64_t context = 0;   // 0: the sequence length that the model was trained with
  int64_t stride = 0;    // 0: the context
  int64_t batch = 4;
  bool json = false;

  void run(Loaded& model) const;
};

}  // namespace athanor::apps
