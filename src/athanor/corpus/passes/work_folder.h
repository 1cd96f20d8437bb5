// The folder of a build's intermediate files, OUTPUT/NAME/work: a subfolder per pass, named by a key of all that the pass
// depends on. A pass with another key starts afresh beside it; what ended is found again, whatever killed the build.
//
//   WorkFolder work(env, "corpora/mine/work");
//   const PassFolder pass = work.pass("annotate-1", key);
//   if (!pass.has("part-000000-000000.json")) pass.write("part-000000-000000.json", "{}");
//   work.remove_others();                                  // once the build has ended
//
// A task of a pass has ended if its .json, which is written last and atomically, is there. Thread rule: one thread a
// process; several processes may write different files.
#pragma once

#include <string>
#include <vector>

#include "athanor/base/file.h"

namespace athanor::corpus::passes {

class PassFolder {
 public:
  PassFolder(Env& env, std::string path);
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  bool has(const std::string& name) const;
  std::string read(const std::string& name) const;
  void write(const std::string& name, const std::string& text) const;  // atomically

 private:
  Env* env_;  // outlives the folder
  std::string path_;
};

class WorkFolder {
 public:
  // only_old: a pass that is not there is an Error.
  WorkFolder(Env& env, std::string path, bool only_old = false);
  PassFolder pass(const std::string& name, const std::string& key);
  void remove_others();  // subfolders that nobody asked for

 private:
  Env& env_;
  std::string path_;
  bool only_old_;
  std::vector<std::string> used_;
};

// 16 hex digits over the parts, in order.
std::string key_of(const std::vector<std::string>& parts);

}  // namespace athanor::corpus::passes
