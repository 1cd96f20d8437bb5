// What the fuzz targets of the files beside .bin and .idx share: a file that is mapped must lie on a disk.
#pragma once

#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "athanor/base/file.h"

namespace athanor::fuzz {

struct OneFile {
  OneFile() {
    if (::mkdtemp(folder.data()) == nullptr) std::abort();
    path = folder + "/x";
  }
  ~OneFile() { std::filesystem::remove_all(folder); }
  OneFile(const OneFile&) = delete;
  OneFile& operator=(const OneFile&) = delete;
  // Removed first, because file systems write a file that replaces its own content to the disk at once.
  void write(std::string_view bytes) const {
    std::filesystem::remove(path);
    const auto file = system_env().create(path);
    file->append(bytes);
    file->close();
  }
  std::string folder = (std::filesystem::temp_directory_path() / "athanor_fuzz_XXXXXX").string();
  std::string path;
};

}  // namespace athanor::fuzz
