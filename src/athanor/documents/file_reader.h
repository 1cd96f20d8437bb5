// Reads one file of those that document_reader.h reads: recognises its format, hands it to the reader of that format and
// says what becomes of its faults.
// Thread rule and errors: as document_reader.h says.
#pragma once

#include <cstdint>

#include "athanor/documents/document_reader.h"

namespace athanor::documents {

// The options are in range. bytes_before: of the files read before it, which bytes_done goes on from.
ReadReport read_file(Env& env, const SourceFile& file, const ReadOptions& options,
                     const DocumentCallback& callback, uint64_t bytes_before);

}  // namespace athanor::documents
