#include "athanor/data/building/input_files.h"

#include <sys/stat.h>

#include <algorithm>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"

namespace athanor::data::building {
namespace {

constexpr size_t kGroupFiles = 4096;  // so that one of tiny files is not read too long

struct FileStamp {
  std::string content;  // changes with the bytes
  std::string all;      // and whenever somebody could have set that back
};

FileStamp stamp_of_file(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  FileStamp stamp;
  stamp.content =
      fmt::format("{} {} {}.{:09}", info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  stamp.all = fmt::format("{} {}.{:09}", stamp.content, info.st_ctim.tv_sec, info.st_ctim.tv_nsec);
  return stamp;
}

}  // namespace

InputFiles::InputFiles(Env& env, const std::vector<std::string>& paths, uint64_t group_bytes) {
  Hash128 hash;
  for (size_t p = 0; p < paths.size(); ++p) {
    found_.push_back(list_sources(env, paths[p]));
    hash.update(fmt::format("{}\n", paths[p]));
    const std::vector<SourceFile>& files = found_.back().files;
    for (size_t f = 0; f < files.size(); ++f) {
      const bool fits = f > 0 && groups_.back().count < kGroupFiles &&
                        groups_.back().size_bytes + files[f].size_bytes <= group_bytes;
      if (!fits) groups_.push_back({p, f, 0, size_bytes_, 0});
      ++groups_.back().count;
      groups_.back().size_bytes += files[f].size_bytes;
      size_bytes_ += files[f].size_bytes;
      const FileStamp stamp = stamp_of_file(files[f].path);
      hash.update(fmt::format("{}\n{}\n", files[f].path, stamp.all));
      stamps_.push_back(stamp.content);
    }
  }
  identity_ = hash.hex();
}

bool InputFiles::has_standard_input() const {
  return std::any_of(found_.begin(), found_.end(), [](const SourceFiles& found) {
    return !found.files.empty() && found.files[0].path == kStandardInput;
  });
}

void InputFiles::check_unchanged() const {
  size_t at = 0;
  for (const SourceFiles& found : found_)
    for (const SourceFile& file : found.files)
      if (stamp_of_file(file.path).content != stamps_[at++])
        throw Error(fmt::format("'{}': was changed while it was tokenized, expected the same file to the end",
                                file.path),
                    "start again when nobody writes to it any more");
}

}  // namespace athanor::data::building
