// Memory that processes of one host share: a file without a name (memfd), which lives as long as a descriptor or a
// mapping of it. A parent makes it and passes the descriptor to its children.
//
//   const int fd = create_shared_memory("snapshot", size_bytes);           // zeroed; it can never shrink
//   std::shared_ptr<std::byte> memory = map_shared_memory(size_bytes, fd);
//
// Mappings begin at a multiple of a huge page and ask for huge pages; where the machine grants none they have ordinary
// ones. Errors: IoError with the system's reason. Thread rule: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "athanor/base/namespaces.h"

namespace athanor::base {

constexpr size_t kSharedUnit = size_t{2} << 20;  // a huge page
size_t whole_shared_units(size_t size_bytes);    // rounded up; at least one

// `name` is what /proc shows. The descriptor is closed on exec.
int create_shared_memory(const char* name, size_t size_bytes);

// Maps zeroed memory of the process (fd -1), or of a file that is lengthened if needed. The offset is a multiple of
// kSharedUnit.
std::shared_ptr<std::byte> map_shared_memory(size_t size_bytes, int fd = -1, uint64_t offset = 0);

// Lengthens a file to `end` bytes at least; several processes may do so at once. The file never shrinks.
void lengthen_file(int fd, uint64_t end);

}  // namespace athanor::base
