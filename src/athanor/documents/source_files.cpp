#include "athanor/documents/source_files.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::documents {
namespace {

namespace fs = std::filesystem;

class FolderWalk {
 public:
  FolderWalk(Env& env, SourceFiles& found) : env_(env), found_(found) {}

  void walk(const std::string& path, const std::string& relative) {
    std::error_code error;
    const std::string real = fs::canonical(path, error).string();
    if (!error && std::find(chain_.begin(), chain_.end(), real) != chain_.end())
      return leave_out(relative, "a link to a folder above");
    chain_.push_back(real);
    for (const std::string& name : env_.list(path))
      take(join_path(path, name), relative.empty() ? name : fmt::format("{}/{}", relative, name), name);
    chain_.pop_back();
  }

 private:
  void take(const std::string& path, const std::string& relative, const std::string& name) {
    if (name.starts_with('.')) return leave_out(relative, "hidden");
    if (env_.is_folder(path)) return walk(path, relative);
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (error == std::errc::too_many_symbolic_link_levels)
      return leave_out(relative, "a link that leads to itself");
    if (status.type() == fs::file_type::not_found) return leave_out(relative, "a link to nothing");
    if (!error && status.type() != fs::file_type::regular)
      return leave_out(relative, "neither a file nor a folder");
    found_.files.push_back({path, relative, env_.open(path)->size_bytes()});
  }
  void leave_out(const std::string& relative, const char* reason) {
    found_.left_out.push_back({relative, reason});
  }

  Env& env_;
  SourceFiles& found_;
  std::vector<std::string> chain_;  // of folders from the path down to here
};

}  // namespace

uint64_t SourceFiles::size_bytes() const {
  uint64_t total = 0;
  for (const SourceFile& file : files) total += file.size_bytes;
  return total;
}

SourceFiles list_sources(Env& env, const std::string& path) {
  SourceFiles found;
  if (env.is_folder(path)) {
    FolderWalk(env, found).walk(path, "");
    return found;
  }
  std::error_code error;
  if (env.exists(path))
    check(fs::is_regular_file(path, error), "'{}': is neither a file nor a folder, expected text to read",
          path);
  found.files.push_back({path, fs::path(path).filename().string(), env.open(path)->size_bytes()});
  return found;
}

}  // namespace athanor::documents
