// A document on its way through a corpus build, and what the stages say of it.
//
//   Document document{.id = "part-0.jsonl/17", .text = "It rains.", .source = "part-0.jsonl", .channel = "en"};
//   std::vector<double> scores(stage.scores().size());
//   stage.annotate(document, scores);
//
// Thread rule: plain data.
#pragma once

#include <string>

#include "athanor/base/namespaces.h"

namespace athanor::corpus {

struct Document {
  std::string id = {};      // its own "id", else "FILE/N" with N its number in that file, from 0
  std::string text = {};    // UTF-8
  std::string source = {};  // the file, relative to the path of its input
  std::string channel = {};
  std::string metadata = "{}";  // the other keys of its record: one JSON object
};

}  // namespace athanor::corpus
