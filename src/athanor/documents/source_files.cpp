#include "athanor/documents/source_files.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/documents/glob.h"

namespace athanor::documents {
namespace {

namespace fs = std::filesystem;

class FolderWalk {
 public:
  FolderWalk(Env& env, SourceFiles& found) : env_(env), found_(found) {}

  void walk(const std::string& path, const std::string& relative) {
    each_entry(path, relative,
               [&](const std::string& below, const std::string& below_relative, const std::string& name) {
                 if (name.starts_with('.')) return leave_out(below_relative, "hidden");
                 take(below, below_relative);
               });
  }

  void walk_glob(const std::string& path, const std::string& relative, const Glob& glob,
                 const Glob::Places& places) {
    each_entry(path, relative,
               [&](const std::string& below, const std::string& below_relative, const std::string& name) {
                 const Glob::Places next = glob.step(places, name);
                 if (glob.matches(next)) return take(below, below_relative);
                 if (!next.empty() && env_.is_folder(below))
                   return walk_glob(below, below_relative, glob, next);
                 if (name.starts_with('.') && glob.matches(glob.step(places, name, true)))
                   leave_out(below_relative, "hidden");
               });
  }

 private:
  template <typename Entry>
  void each_entry(const std::string& path, const std::string& relative, const Entry& entry) {
    std::error_code error;
    const std::string folder = path.empty() ? "." : path;
    const std::string real = fs::canonical(folder, error).string();
    if (!error && std::find(chain_.begin(), chain_.end(), real) != chain_.end())
      return leave_out(relative, "a link to a folder above");
    chain_.push_back(real);
    for (const std::string& name : env_.list(folder))
      entry(path.empty() ? name : join_path(path, name),
            relative.empty() ? name : fmt::format("{}/{}", relative, name), name);
    chain_.pop_back();
  }

  void take(const std::string& path, const std::string& relative) {
    if (env_.is_folder(path)) return walk(path, relative);
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (error == std::errc::too_many_symbolic_link_levels)
      return leave_out(relative, "a link that leads to itself");
    if (status.type() == fs::file_type::not_found) return leave_out(relative, "a link to nothing");
    if (!error && status.type() != fs::file_type::regular)
      return leave_out(relative, "neither a file nor a folder");
    found_.files.push_back({path, relative, env_.open(path)->size_bytes(), true});
  }
  void leave_out(const std::string& relative, const char* reason) {
    found_.left_out.push_back({relative, reason});
  }

  Env& env_;
  SourceFiles& found_;
  std::vector<std::string> chain_;  // of folders from the path down to here
};

SourceFiles list_glob(Env& env, const std::string& pattern) {
  const Glob glob(pattern);
  if (!glob.base().empty() && !env.is_folder(glob.base()))
    fail("'{}': there is no folder '{}', expected one with files that match", printable(pattern),
         printable(glob.base()));
  SourceFiles found;
  FolderWalk(env, found).walk_glob(glob.base(), "", glob, glob.start());
  if (!found.files.empty()) return found;
  std::string seen;
  if (!found.left_out.empty())
    seen = fmt::format(" ({} left out: {}, {}{})", found.left_out.size(), printable(found.left_out[0].file),
                       found.left_out[0].reason, found.left_out.size() > 1 ? ", ..." : "");
  fail("'{}': no file matches{}, expected at least one", printable(pattern), seen);
}

}  // namespace

uint64_t SourceFiles::size_bytes() const {
  uint64_t total = 0;
  for (const SourceFile& file : files) total += file.size_bytes;
  return total;
}

SourceFiles list_sources(Env& env, const std::string& path) {
  SourceFiles found;
  if (path == kStandardInput) {
    found.files.push_back({path, "stdin", 0, false});
    return found;
  }
  if (env.is_folder(path)) {
    FolderWalk(env, found).walk(path, "");
    return found;
  }
  std::error_code error;
  if (!env.exists(path) && Glob::is_glob(path)) return list_glob(env, path);
  if (env.exists(path))
    check(fs::is_regular_file(path, error), "'{}': is neither a file nor a folder, expected text to read",
          path);
  found.files.push_back({path, fs::path(path).filename().string(), env.open(path)->size_bytes(), false});
  return found;
}

}  // namespace athanor::documents
