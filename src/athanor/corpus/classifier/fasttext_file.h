// Checks a fastText model file (.bin, .ftz) from end to end before libfasttext reads it: that library trusts every size
// and index in the file, and would allocate or read past its memory where one is wrong.
//
//   const MappedFile file(path);
//   check_fasttext_file({reinterpret_cast<const char*>(file.data()), file.size_bytes()}, path);
//
// The layout, all numbers little-endian: magic and version; twelve int32 and a double of settings; the dictionary (words,
// then labels, each with count and kind, then the n-grams that pruning kept); the input matrix, plain or quantized; the
// output matrix. Supervised models of versions 11 and 12 pass (Joulin et al., "Bag of tricks for efficient text
// classification", 2016; "FastText.zip", 2016, for the quantized ones). Thread rule: a pure function.
#pragma once

#include <string>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::classifier {

bool is_fasttext_file(std::string_view head);  // by its first four bytes

// Error naming what is wrong and where it was expected otherwise. Allocates nothing.
void check_fasttext_file(std::string_view bytes, const std::string& name);

}  // namespace athanor::corpus::classifier
