#include "athanor/kernels/cuda/device/product.h"

#include <cublasLt.h>

#include <array>
#include <map>
#include <vector>

namespace athanor::kernels {

namespace cuda {
namespace {

const char* error_of(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? nullptr : cublasLtGetStatusString(status);
}

cudaDataType_t type_of(Dtype type) {
  return type == Dtype::bf16 ? CUDA_R_16BF : type == Dtype::f16 ? CUDA_R_16F : CUDA_R_32F;
}

// The largest power of two up to 256 that the address is a multiple of: slices of tensors start anywhere.
uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  uint32_t alignment = 256;
  while (address % alignment != 0) alignment /= 2;
  return alignment;
}

// One product as the library sees it, with the algorithms that it proposed for the shape, the best first.
struct Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;  // of the transposed product
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  size_t next = 0;  // those before it were refused when they were to run

  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    if (a != nullptr) cublasLtMatrixLayoutDestroy(a);
    if (b != nullptr) cublasLtMatrixLayoutDestroy(b);
    if (c != nullptr) cublasLtMatrixLayoutDestroy(c);
    if (operation != nullptr) cublasLtMatmulDescDestroy(operation);
  }
};

// What the library adds the product to, if anything.
const void* added_to(const CudaProduct& p) {
  return p.residual != nullptr ? p.residual : p.c;
}

// What an algorithm depends on.
using Key = std::array<int64_t, 16>;

Key key_of(const CudaProduct& p) {
  return {p.form,
          p.m,
          p.n,
          p.k,
          p.a_row,
          p.b_row,
          p.c_row,
          static_cast<int64_t>(p.in),
          static_cast<int64_t>(p.out),
          p.add ? 1 : 0,
          p.bias != nullptr ? 1 : 0,
          p.residual != nullptr ? alignment_of(p.residual) : 0,
          alignment_of(p.a),
          alignment_of(p.b),
          alignment_of(p.c),
          static_cast<int64_t>(p.workspace_bytes)};
}

template <typename Value>
const char* set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                const Value& value) {
  return error_of(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value));
}
template <typename Value>
const char* set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
                const Value& value) {
  return error_of(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value));
}

// The first of the calls that fails; later ones are not made.
template <typename... Calls>
const char* first_error(const Calls&... calls) {
  const char* error = nullptr;
  const auto run = [&](const auto& call) { return error = call(), error == nullptr; };
  (run(calls) && ...);
  return error;
}

// The library's `a` is the program's b, and the other way round.
const char* describe(Plan& plan, const CudaProduct& p) {
  const cublasOperation_t transpose = CUBLAS_OP_T, plain = CUBLAS_OP_N;
  const cublasLtEpilogue_t epilogue = p.bias == nullptr ? CUBLASLT_EPILOGUE_DEFAULT : CUBLASLT_EPILOGUE_BIAS;
  const bool is_nt = p.form == CudaProduct::nt, is_tn = p.form == CudaProduct::tn;
  const auto rows = [](int64_t length) { return static_cast<uint64_t>(length); };
  return first_error(
      [&] { return error_of(cublasLtMatmulDescCreate(&plan.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F)); },
      [&] { return set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, is_nt ? transpose : plain); },
      [&] { return set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSB, is_tn ? transpose : plain); },
      [&] { return set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue); },
      [&] {
        return p.bias == nullptr ? nullptr
                                 : set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(p.out));
      },
      [&] {
        const int64_t down = is_nt ? p.k : p.n, across = is_nt ? p.n : p.k;
        return error_of(
            cublasLtMatrixLayoutCreate(&plan.a, type_of(p.in), rows(down), rows(across), p.b_row));
      },
      [&] {
        const int64_t down = is_tn ? p.m : p.k, across = is_tn ? p.k : p.m;
        return error_of(
            cublasLtMatrixLayoutCreate(&plan.b, type_of(p.in), rows(down), rows(across), p.a_row));
      },
      [&] {
        return error_of(cublasLtMatrixLayoutCreate(&plan.c, type_of(p.out), rows(p.n), rows(p.m), p.c_row));
      });
}

// Asks for an algorithm that adds up in one order: no atomics, so sums of parts go through the workspace.
const char* choose(Plan& plan, cublasLtHandle_t handle, const CudaProduct& p) {
  cublasLtMatmulPreference_t preference = nullptr;
  std::array<cublasLtMatmulHeuristicResult_t, 16> found{};
  int count = 0;
  const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  const char* error = first_error(
      [&] { return error_of(cublasLtMatmulPreferenceCreate(&preference)); },
      [&] { return set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, p.workspace_bytes); },
      [&] { return set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions); },
      [&] { return set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.b)); },
      [&] { return set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.a)); },
      [&] { return set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(added_to(p))); },
      [&] { return set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.c)); },
      [&] {
        return error_of(cublasLtMatmulAlgoGetHeuristic(handle, plan.operation, plan.a, plan.b, plan.c, plan.c,
                                                       preference, static_cast<int>(found.size()),
                                                       found.data(), &count));
      });
  if (preference != nullptr) cublasLtMatmulPreferenceDestroy(preference);
  if (error != nullptr) return error;
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& one = found.at(static_cast<size_t>(i));
    cublasLtMatmulHeuristicResult_t checked{};
    if (one.state == CUBLAS_STATUS_SUCCESS &&
        cublasLtMatmulAlgoCheck(handle, plan.operation, plan.a, plan.b, plan.c, plan.c, &one.algo,
                                &checked) == CUBLAS_STATUS_SUCCESS &&
        checked.workspaceSize <= p.workspace_bytes)
      plan.algorithms.push_back(one.algo);
  }
  return nullptr;
}

}  // namespace
}  // namespace cuda

struct ProductPlans {
  cublasLtHandle_t handle = nullptr;
  std::map<cuda::Key, cuda::Plan> plans;
};

namespace cuda {

const char* open_plans(ProductPlans** plans) {
  *plans = new ProductPlans;
  return error_of(cublasLtCreate(&(*plans)->handle));
}

void close_plans(ProductPlans* plans) {
  plans->plans.clear();
  if (plans->handle != nullptr) cublasLtDestroy(plans->handle);
  delete plans;
}

const char* product(CudaCalls::Stream* stream, const CudaProduct& p) {
  if (const char* error = error_text(cudaSetDevice(stream->device))) return error;
  auto& [handle, plans] = *stream->plans;
  const auto [place, is_new] = plans.try_emplace(key_of(p));
  Plan& plan = place->second;
  if (is_new) {
    const char* error = describe(plan, p);
    if (error == nullptr) error = choose(plan, handle, p);
    if (error != nullptr) plan.algorithms.clear();
  }
  if (p.bias != nullptr)
    if (const char* error = set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias)) return error;
  const float one = 1, kept = p.add || p.residual != nullptr ? 1.0f : 0.0f;
  for (; plan.next < plan.algorithms.size(); ++plan.next) {
    const cublasStatus_t status = cublasLtMatmul(
        handle, plan.operation, &one, p.b, plan.a, p.a, plan.b, &kept, added_to(p), plan.c, p.c, plan.c,
        &plan.algorithms[plan.next], p.workspace, p.workspace_bytes, stream->stream);
    if (status != CUBLAS_STATUS_INVALID_VALUE && status != CUBLAS_STATUS_NOT_SUPPORTED)
      return error_of(status);
  }
  return plain_product(stream, p);
}

}  // namespace cuda
}  // namespace athanor::kernels
