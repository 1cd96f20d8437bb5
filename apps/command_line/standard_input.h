// Standard input as a stream of bytes.
//
//   const std::unique_ptr<ByteSource> input = open_standard_input();
//
// Thread rule: one thread. Errors: IoError.
#pragma once

#include <memory>

#include "athanor/documents/byte_source.h"

namespace athanor::apps {

std::unique_ptr<ByteSource> open_standard_input();

}  // namespace athanor::apps
