// A large file that is written once from front to back: past the page cache, so that a checkpoint neither
// waits for memory nor drives what training reads out of it, and by a thread of its own, so that the caller
// computes checksums while the disk works.
//
//   const auto file = create_large_file("tensors-00000.safetensors");
//   file->append(bytes, size_bytes);   // copied; returns as soon as one of two buffers has room
//   file->sync();
//   file->close();
//
// After flush() or sync() it goes on as an ordinary file. Where the file system cannot bypass the page cache
// it is written through it. Errors: IoError naming the path, from whichever call comes after the failed write;
// nothing behind the failure reaches the disk. Thread rule: as WritableFile, one thread at a time.
#pragma once

#include <memory>
#include <string>

#include "athanor/base/file.h"

namespace athanor {

std::unique_ptr<WritableFile> create_large_file(const std::string& path);  // truncates

}  // namespace athanor
