// Forward declarations of tensor/, for headers that only pass tensors on, such as the contracts of kernels/.
#pragma once

#include "athanor/base/namespaces.h"

namespace athanor::tensor {

class Arena;
class Queue;
class Tensor;

}  // namespace athanor::tensor
