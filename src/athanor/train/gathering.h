// Puts the boxes of tensors that ranks hold together to whole tensors again: what a layout is compared by.
//
//   Gathering gathering;                                   // one for all ranks, which are threads
//   for (const NamedTensor& part : training.tensors()) gathering.put(part);
//   const WholeTensors all = gathering.whole();            // when every rank has put its own
//
// Errors: Error naming the tensor where two ranks hold other bits of an element, or nobody holds it. Thread rule: put()
// from any thread.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "athanor/checkpoint/checkpoint.h"

namespace athanor {

using WholeTensors = std::map<std::string, std::vector<float>>;  // logical tensors by name

class Gathering {
 public:
  void put(const NamedTensor& part);
  WholeTensors whole();  // ends it

 private:
  struct Parts {
    std::vector<float> values;
    std::vector<bool> is_set;
  };
  std::mutex mutex_;
  std::map<std::string, Parts> tensors_;
};

}  // namespace athanor
