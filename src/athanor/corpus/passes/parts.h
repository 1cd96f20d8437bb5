// The parts of a build: files of some megabytes of documents each, the unit of work of every pass behind the first.
//
// A part belongs to one file of the input, or to small ones that are neighbours, so which documents it has does not depend
// on who reads what. Documents are
// numbered through all parts: document 0 is the first of the first part. Thread rule: plain data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::passes {

constexpr uint64_t kPartBytes = uint64_t{8} << 20;  // of text, the last document over it included
constexpr uint64_t kPartDocuments = 16384;          // at most, so that their scores fit into memory

struct Part {
  std::string name;  // "part-000003-000001": of batch 3 of files the second
  std::string channel;
  uint64_t first = 0;  // number of its first document
  uint64_t documents = 0;
  uint64_t text_bytes = 0;
};

// The documents of one file of the inputs, which are neighbours.
struct Source {
  std::string name;  // Document::source
  std::string channel;
  uint64_t first = 0;  // number of its first document
  uint64_t documents = 0;
  uint64_t text_bytes = 0;
};

struct RefusedExample {
  std::string file;
  int64_t line = 0;
  std::string detail;
};
struct Refused {
  int64_t count = 0;
  std::vector<RefusedExample> examples = {};  // the first few
};

struct Parts {
  std::vector<Part> parts = {};
  std::vector<Source> sources = {};                                // files with a document, in order
  std::map<std::string, Refused> refused = {};                     // by reason: records that are no documents
  std::vector<std::pair<std::string, std::string>> left_out = {};  // files and reasons
  uint64_t files = 0, raw_bytes = 0, documents = 0, text_bytes = 0;
};

}  // namespace athanor::corpus::passes
