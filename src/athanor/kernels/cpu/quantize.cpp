#include "athanor/kernels/quantize.h"

#include <array>
#include <cmath>

#include "athanor/kernels/cpu/cpu.h"
#include "athanor/kernels/cpu/quantize_codes.h"

namespace athanor::kernels {
namespace {

// The codes of a map as tables.
template <int kCodes>
struct Codes {
  std::array<float, kCodes> values{}, middles{};

  constexpr Codes() {
    for (int i = 0; i < kCodes; ++i) {
      values[static_cast<size_t>(i)] = code_value<kCodes>(i);
      middles[static_cast<size_t>(i)] = code_middle<kCodes>(i);
    }
  }
  int nearest(float t) const { return nearest_code<kCodes>(middles.data(), t); }
};

constexpr Codes<kPlainCodes> kPlain;
constexpr Codes<kRootCodes> kRoot;

float encode_plain(const float* x, int64_t n, uint8_t* codes) {
  float scale = 0.0f;
  for (int64_t i = 0; i < n; ++i) scale = std::max(scale, std::abs(x[i]));
  if (scale < kQuantizeTiny) scale = 0.0f;
  for (int64_t i = 0; i < n; ++i) {
    const int code = scale > 0.0f ? kPlain.nearest(std::abs(x[i]) / scale) : 0;
    const bool is_zero = kPlain.values[static_cast<size_t>(code)] * scale < kQuantizeTiny;
    codes[i] = static_cast<uint8_t>(is_zero ? 0 : x[i] < 0.0f ? code + kNegative : code);
  }
  return scale;
}

float encode_root(const float* x, int64_t n, uint8_t* codes) {
  float scale = 0.0f;
  for (int64_t i = 0; i < n; ++i) scale = std::max(scale, x[i]);
  scale = std::sqrt(scale);
  if (scale < kQuantizeTiny) scale = 0.0f;
  for (int64_t i = 0; i < n; ++i) {
    const float root = std::sqrt(x[i]);
    const int code = scale > 0.0f && root > 0.0f ? std::max(1, kRoot.nearest(root / scale)) : 0;
    codes[i] =
        static_cast<uint8_t>(kRoot.values[static_cast<size_t>(code)] * scale < kQuantizeTiny ? 0 : code);
  }
  return scale;
}

void decode_plain(float* x, int64_t n, const uint8_t* codes, float scale) {
  for (int64_t i = 0; i < n; ++i) {
    const float magnitude = kPlain.values[codes[i] % kNegative] * scale;
    x[i] = codes[i] < kNegative ? magnitude : -magnitude;
  }
}

void decode_root(float* x, int64_t n, const uint8_t* codes, float scale) {
  for (int64_t i = 0; i < n; ++i) {
    const float root = kRoot.values[codes[i]] * scale;
    x[i] = root * root;
  }
}

void check_contract(const char* kernel, const Tensor& x, const Tensor& codes, const Tensor& scales) {
  expect_count(kernel, "x", x, x.numel(), Dtype::f32);
  expect_count(kernel, "codes", codes, x.numel(), Dtype::u8);
  expect_count(kernel, "scales", scales, num_blocks(x.numel(), kQuantizeBlock), Dtype::f32);
}

template <typename Body>
void for_quantize_blocks(Queue& queue, int64_t n, const Body& body) {
  static_assert(kBlockElements % kQuantizeBlock == 0);
  for_blocks(queue, n, kBlockElements, [&](int64_t first, int64_t count) {
    for (int64_t at = first; at < first + count; at += kQuantizeBlock)
      body(at, std::min(kQuantizeBlock, first + count - at));
  });
}

void encode(Queue& queue, Tensor& codes, Tensor& scales, const Tensor& x, CodeMap map) {
  check_contract("quantize.encode", x, codes, scales);
  const Meter::Call call = metered(queue, "quantize.encode", 12.0 * flops_of(x), bytes_of(codes, scales, x));
  for_quantize_blocks(queue, x.numel(), [&](int64_t first, int64_t count) {
    const auto encode_block = map == CodeMap::plain ? encode_plain : encode_root;
    scales.data<float>()[first / kQuantizeBlock] =
        encode_block(x.data<float>() + first, count, codes.data<uint8_t>() + first);
  });
}

void decode(Queue& queue, Tensor& x, const Tensor& codes, const Tensor& scales, CodeMap map) {
  check_contract("quantize.decode", x, codes, scales);
  const Meter::Call call = metered(queue, "quantize.decode", 2.0 * flops_of(x), bytes_of(codes, scales, x));
  for_quantize_blocks(queue, x.numel(), [&](int64_t first, int64_t count) {
    const auto decode_block = map == CodeMap::plain ? decode_plain : decode_root;
    decode_block(x.data<float>() + first, count, codes.data<uint8_t>() + first,
                 scales.data<float>()[first / kQuantizeBlock]);
  });
}

}  // namespace

const QuantizeKernels cpu_quantize{encode, decode};

}  // namespace athanor::kernels
