// The configuration that all code for tile registers loads: eight tiles of 16 rows of 64 bytes.
#pragma once

#include <cstdint>

namespace athanor::kernels::amx {
namespace {

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
// In memory, never on the stack: the compiler believes that loading a configuration reads its first bytes only.
constexpr TileConfig kConfig;

}  // namespace
}  // namespace athanor::kernels::amx
