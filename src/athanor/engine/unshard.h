// Assembles full tensors from the boxes that ranks hold, to compare layouts with each other (unshard).
//
//   Gathering gathering;                                   // one for all ranks, which are threads of this process
//   for (const NamedTensor& part : training.tensors()) gathering.put(part);
//   const WholeTensors all = gathering.whole();            // after every rank has put its own
//
// Errors: Error naming the tensor where two ranks hold different bits of an element, or no rank holds it. Thread rule:
// put() from any thread.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "athanor/checkpoint/checkpoint.h"

namespace athanor::engine {

using WholeTensors = std::map<std::string, std::vector<float>>;  // logical tensors by name

class Gathering {
 public:
  void put(const NamedTensor& part);
  WholeTensors whole();  // call once: it moves the values out

 private:
  struct Parts {
    std::vector<float> values;
    std::vector<bool> is_set;
  };
  std::mutex mutex_;
  std::map<std::string, Parts> tensors_;
};

}  // namespace athanor::engine
