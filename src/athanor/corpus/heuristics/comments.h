// How much of a source file is comment.
//
//   const CommentSyntax syntax = comment_syntax_of("repo/tool.py");   // kPython
//   const uint64_t chars = comment_chars("x = 1  # one\n", syntax);   // 5
//
// By syntax:
//   kPython  "#" to the end of the line, with the "#"; and what stands between the quotes of a string that is a statement
//            of its own (where docstrings stand)
//   kHash    shell, Ruby, Perl, R, YAML, TOML, make: "#" at the start of a line or behind a space, to the end of the line
//   kSlash   C and its kin, Java, JavaScript, Go, Rust: what follows "//" or stands between "/*" and "*/"
// Marks in strings begin no comment. A string ends at the end of its line, but for '''...''', """...""" of Python and `...`.
// Nothing is parsed: a file with errors has comments too, where NeMo Curator sees none.
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::heuristics {

enum class CommentSyntax : uint8_t { kUnknown, kPython, kHash, kSlash };

// The ending of a file's name, in lower case and without its dot: "py" of "a/b.py", "a/b.py.gz" and the id "a/b.py/0".
std::string name_ending(std::string_view name);

CommentSyntax comment_syntax_of(std::string_view name);

uint64_t comment_chars(std::string_view source, CommentSyntax syntax);

}  // namespace athanor::corpus::heuristics
