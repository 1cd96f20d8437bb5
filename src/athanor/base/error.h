// The two kinds of exceptions that the library throws (law 8: it never ends the process).
//
//   Error        misuse or a broken invariant: a bug, a bad file, a bad setting. Retrying does not help.
//   Recoverable  the surroundings failed: a peer died, time ran out, a disk is full. A launcher may restart the run.
//
// A message names the thing, what was got and what was expected: "rms_norm: x [2,3] must end in 4".
// A hint says what the user may do about it; it is printed on a line of its own.
// Thread rule: plain values; throw them from any thread.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "athanor/base/namespaces.h"

namespace athanor::base {

class Failure : public std::runtime_error {
 public:
  explicit Failure(const std::string& what, std::string hint = "")
      : std::runtime_error(what), hint_(std::move(hint)) {}
  const std::string& hint() const { return hint_; }

 private:
  std::string hint_;
};

class Error : public Failure {
 public:
  using Failure::Failure;
};

// A wrong command line or config: the program's exit code is 2 instead of 1.
class ConfigError : public Error {
 public:
  using Error::Error;
};

class Recoverable : public Failure {
 public:
  using Failure::Failure;
};

// A member of a group died or left; rank() is its number in that group.
class PeerLost : public Recoverable {
 public:
  PeerLost(int rank, const std::string& what) : Recoverable(what), rank_(rank) {}
  int rank() const { return rank_; }

 private:
  int rank_;
};

class Timeout : public Recoverable {
 public:
  using Recoverable::Recoverable;
};

// A system call on a file failed; code() is its errno.
class IoError : public Recoverable {
 public:
  IoError(const std::string& what, int code, std::string hint = "")
      : Recoverable(what, std::move(hint)), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

}  // namespace athanor::base
