// Patterns of paths, as shells know them.
//
//   const Glob glob("raw/en/**/*.jsonl");
//   glob.base();                                          // "raw/en"
//   Glob::Places places = glob.step(glob.start(), "a");   // goes down into the folder raw/en/a
//   if (glob.matches(glob.step(places, "part.jsonl"))) use("raw/en/a/part.jsonl");
//
// * stands for any characters of a name and ? for one, [a-z] for one of those and [!a-z] for one of the others; a
// backslash takes the meaning from the character behind it. A component ** stands for any number of folders, none
// included. Names that begin with a dot are hidden: only a component that begins with a dot itself matches them.
// Thread rule: does not change after it was made.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::documents {

class Glob {
 public:
  // Where in the pattern a path may be.
  using Places = std::vector<size_t>;

  explicit Glob(std::string_view pattern);

  static bool is_glob(std::string_view path);  // whether a character in it stands for others

  // The folders before the first component that stands for others; "" if there are none.
  const std::string& base() const { return base_; }

  Places start() const;
  Places step(const Places& places, std::string_view name, bool hidden_too = false) const;
  bool matches(
      const Places& places) const;  // the path down to here; empty places: neither it nor what is below it

 private:
  void add(Places& places, size_t place) const;

  std::string base_;
  std::vector<std::string> components_;  // behind the base
};

}  // namespace athanor::documents
