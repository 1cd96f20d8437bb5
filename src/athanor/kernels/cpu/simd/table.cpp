#include "athanor/kernels/cpu/rows.h"

namespace athanor {
namespace {

constexpr RowTable named(const char* name) {
  RowTable table{};
  table.name = name;
  return table;
}

}  // namespace

constinit const RowTable avx2_rows = named("avx2");
constinit const RowTable avx512_rows = named("avx512");

}  // namespace athanor
