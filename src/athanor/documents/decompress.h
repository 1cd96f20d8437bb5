// The decompressors behind byte_source.h, each a ByteSource over another.
#pragma once

#include <memory>
#include <string>

#include "athanor/documents/byte_source.h"

namespace athanor::documents {

std::unique_ptr<ByteSource> read_gzip(std::unique_ptr<ByteSource> source, const std::string& name);
std::unique_ptr<ByteSource> read_zstd(std::unique_ptr<ByteSource> source, const std::string& name,
                                      uint64_t max_window_bytes);
std::unique_ptr<ByteSource> read_xz(std::unique_ptr<ByteSource> source, const std::string& name,
                                    uint64_t max_window_bytes);
std::unique_ptr<ByteSource> read_bzip2(std::unique_ptr<ByteSource> source, const std::string& name);

}  // namespace athanor::documents
