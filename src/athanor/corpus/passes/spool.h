// Standard input, an input "-", as a file of the work folder: it is written there whole, then read as any file. Its name is
// the hash of its bytes, so that a build with the same bytes goes on where the last one was.
//
//   const SourceFile file = spool(env, options.standard_input, work);      // WORK/stdin-spool/HASH
//
// Thread rule: one thread. Errors: IoError naming the file on a full disk, which then has none of it; Error for no bytes, and
// where nothing is to be read and no build has read it before.
#pragma once

#include <functional>
#include <memory>

#include "athanor/corpus/passes/work_folder.h"
#include "athanor/documents/byte_source.h"
#include "athanor/documents/source_files.h"

namespace athanor::corpus::passes {

using OpenStandardInput = std::function<std::unique_ptr<ByteSource>()>;

// Without `open` it is the file of the last build.
SourceFile spool(Env& env, const OpenStandardInput& open, WorkFolder& work);

}  // namespace athanor::corpus::passes
