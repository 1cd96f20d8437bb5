#include "athanor/tensor/dtype.h"

#include "athanor/base/check.h"

namespace athanor::tensor {

const char* name_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return "f32";
    case Dtype::bf16:
      return "bf16";
    case Dtype::f16:
      return "f16";
    case Dtype::i32:
      return "i32";
    case Dtype::i64:
      return "i64";
    case Dtype::u8:
      return "u8";
    case Dtype::f64:
      return "f64";
  }
  return "?";
}

Dtype parse_dtype(std::string_view name) {
  for (const Dtype dtype :
       {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::i32, Dtype::i64, Dtype::u8, Dtype::f64})
    if (name == name_of(dtype)) return dtype;
  fail("dtype: got '{}', expected f32, bf16, f16, i32, i64, u8 or f64", name);
}

}  // namespace athanor::tensor
