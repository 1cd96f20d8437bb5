#include "onednn.h"

#include <omp.h>

#include <dnnl.hpp>

namespace athanor::apps {
namespace {

using dnnl::memory;

memory::data_type type_of(const Tensor& x) {
  return x.dtype() == Dtype::f32 ? memory::data_type::f32 : memory::data_type::bf16;
}

memory::desc matrix(int64_t rows, int64_t columns, bool transposed, const Tensor& x) {
  return {{rows, columns}, type_of(x), transposed ? memory::dims{1, rows} : memory::dims{columns, 1}};
}

class Product : public OnednnProduct {
 public:
  Product(const OnednnProblem& p, OnednnForm form, const Tensor& a, const Tensor& b, const Tensor& c)
      : form_(form), tensors_{a, b, c} {
    const memory::desc a_desc = matrix(p.m, p.k, p.transposed_a, a);
    const memory::desc b_desc = matrix(p.k, p.n, p.transposed_b, b);
    const memory::desc c_desc = matrix(p.m, p.n, false, c);
    const memory::desc any({p.k, p.n}, type_of(b), memory::format_tag::any);
    dnnl::primitive_attr attributes;
    if (p.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.f);
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::primitive_desc made(
        dnnl::matmul::desc(a_desc, form == OnednnForm::plain ? b_desc : any, c_desc), attributes, engine_);
    product_ = dnnl::matmul(made);
    plain_ = memory(b_desc, engine_, b.raw());
    weights_ = plain_;
    if (made.weights_desc() != b_desc) {
      weights_ = memory(made.weights_desc(), engine_);
      pack_ = dnnl::reorder(plain_, weights_);
    } else {
      form_ = OnednnForm::plain;
    }
    arguments_ = {{DNNL_ARG_SRC, memory(a_desc, engine_, a.raw())},
                  {DNNL_ARG_WEIGHTS, weights_},
                  {DNNL_ARG_DST, memory(c_desc, engine_, c.raw())}};
    pack();
  }

  void run() override {
    if (form_ == OnednnForm::repacked) pack();
    product_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  void pack() {
    if (form_ == OnednnForm::plain) return;
    pack_.execute(stream_, plain_, weights_);
    stream_.wait();
  }

  OnednnForm form_;
  Tensor tensors_[3];  // keeps their memory
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::matmul product_;
  dnnl::reorder pack_;
  memory plain_, weights_;
  std::unordered_map<int, memory> arguments_;
};

}  // namespace

const char* name_of(OnednnForm form) {
  return form == OnednnForm::plain ? "plain" : form == OnednnForm::packed ? "packed" : "repacked";
}

std::unique_ptr<OnednnProduct> OnednnProduct::make(const OnednnProblem& problem, OnednnForm form,
                                                   const Tensor& a, const Tensor& b, const Tensor& c) {
  try {
    return std::make_unique<Product>(problem, form, a, b, c);
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) throw;
    return nullptr;
  }
}

void set_onednn(Isa isa, int threads) {
  omp_set_num_threads(threads);
  if (isa == Isa::amx) return;
  dnnl::set_max_cpu_isa(isa >= Isa::avx512_bf16 ? dnnl::cpu_isa::avx512_core_bf16
                        : isa >= Isa::avx512    ? dnnl::cpu_isa::avx512_core
                        : isa >= Isa::avx2      ? dnnl::cpu_isa::avx2
                                                : dnnl::cpu_isa::sse41);
}

void rest_onednn() {
  omp_pause_resource_all(omp_pause_soft);
}

}  // namespace athanor::apps
