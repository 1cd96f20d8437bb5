// Reads the control groups (cgroups) of this process: the folders whose files limit its CPUs and its memory.
// Containers, batch systems and systemd set them; versions 1 and 2, wherever they are mounted.
//
//   for (const CgroupFolder& group : cgroup_folders("", "cpu")) group.number("cpu.cfs_quota_us");
//
// `root` is the folder under which /proc and /sys lie; tests pass their own. Thread rule: pure functions of files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::base {

struct CgroupFolder {
  int version = 2;
  std::string path;  // of the folder, below root
  std::string name;  // of the group as this process sees it: "/slice/job"

  std::optional<std::string> text(
      const std::string& file) const;  // its first line; none if there is no such file
  std::optional<uint64_t> number(const std::string& file) const;  // of text(); none for "max" and "-1"
  // The number on the line of `file` that begins with `key`.
  std::optional<uint64_t> entry(const std::string& file, const std::string& key) const;
};

// The version 1 group with this controller ("cpu", "memory") and the version 2 group, each followed by its parents,
// innermost first.
std::vector<CgroupFolder> cgroup_folders(const std::string& root, const std::string& controller);

}  // namespace athanor::base
