#include "athanor/corpus/passes/work_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "athanor/base/error.h"
#include "athanor/base/hash.h"

namespace athanor::corpus::passes {

PassFolder::PassFolder(Env& env, std::string path) : env_(&env), path_(std::move(path)) {
  env.create_folders(path_);
}

bool PassFolder::has(const std::string& name) const {
  return env_->exists(file(name));
}

std::string PassFolder::read(const std::string& name) const {
  return env_->read_text(file(name));
}

void PassFolder::write(const std::string& name, const std::string& text) const {
  env_->write_atomically(file(name), text);
}

WorkFolder::WorkFolder(Env& env, std::string path, bool only_old)
    : env_(env), path_(std::move(path)), only_old_(only_old) {
  env_.create_folders(path_);
}

PassFolder WorkFolder::pass(const std::string& name, const std::string& key) {
  const std::string folder = name + "-" + key;
  if (only_old_ && name != "shards" && !env_.exists(path_ + "/" + folder))
    throw Error(
        fmt::format("pass '{}' has not been done with these settings and inputs, expected a build before",
                    name),
        "athanor corpus build does it");
  used_.push_back(folder);
  return PassFolder(env_, path_ + "/" + folder);
}

void WorkFolder::remove_others() {
  for (const std::string& name : env_.list(path_))
    if (std::find(used_.begin(), used_.end(), name) == used_.end() && env_.is_folder(path_ + "/" + name))
      env_.remove_all(path_ + "/" + name);
}

std::string key_of(const std::vector<std::string>& parts) {
  Hash128 hash;
  for (const std::string& part : parts) {
    hash.update(std::to_string(part.size()) + ":");
    hash.update(part);
  }
  return hash.hex().substr(0, 16);
}

}  // namespace athanor::corpus::passes
