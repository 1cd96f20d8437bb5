// Writes a large file once, from front to back, past the page cache (O_DIRECT) and on a thread of its own. So a
// checkpoint neither waits for memory nor evicts what training reads, and the caller computes checksums while the disk
// works.
//
//   const auto file = create_large_file("tensors-00000.safetensors");
//   file->append(bytes, size_bytes);   // copied; returns as soon as one of two buffers has room
//   file->sync();
//   file->close();
//
// After flush() or sync() it goes on as an ordinary file. If the file system cannot bypass the page cache, the file is
// written through it. Errors: IoError naming the path, from whichever call comes after the failed write; no data after
// the failure reaches the disk. Thread rule: as WritableFile, one thread at a time.
#pragma once

#include <memory>
#include <string>

#include "athanor/base/file.h"

namespace athanor::base {

std::unique_ptr<WritableFile> create_large_file(const std::string& path);  // truncates

}  // namespace athanor::base
