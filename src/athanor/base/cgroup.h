// The control groups that this process is in: the folders whose files limit its CPUs and its memory (containers, batch
// systems, systemd; versions 1 and 2, wherever they are mounted).
//
//   for (const CgroupFolder& group : cgroup_folders("", "cpu")) group.number("cpu.cfs_quota_us");
//
// `root` is the folder under which /proc and /sys lie; tests give their own. Thread rule: pure functions of files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace athanor {

struct CgroupFolder {
  int version = 2;
  std::string path;  // of the folder, behind root
  std::string name;  // of the group as this process sees it: "/slice/job"

  std::optional<std::string> text(
      const std::string& file) const;  // its first line; none where there is no such file
  std::optional<uint64_t> number(const std::string& file) const;  // none for "max" and "-1", too
  // The number behind `key` on a line of its own.
  std::optional<uint64_t> entry(const std::string& file, const std::string& key) const;
};

// The group of version 1 with this controller ("cpu", "memory") and that of version 2, each with all that it lies in, the
// innermost first.
std::vector<CgroupFolder> cgroup_folders(const std::string& root, const std::string& controller);

}  // namespace athanor
