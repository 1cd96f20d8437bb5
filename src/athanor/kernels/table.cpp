#include "athanor/kernels/table.h"

#include <algorithm>

#include "athanor/kernels/cpu/cpu.h"

namespace athanor::kernels {
namespace {

// The null device uses the CPU's table: on it the drivers check and allocate, and run nothing.
const KernelTable& cpu_table() {
  static const KernelTable table{cpu_attention, cpu_cross_entropy, cpu_dropout,   cpu_elementwise,
                                 cpu_embedding, cpu_gelu,          cpu_gemm,      cpu_layer_norm,
                                 cpu_optimizer, cpu_quantize,      cpu_rms_norm,  cpu_rope,
                                 cpu_router,    cpu_swiglu,        cpu_token_rows};
  return table;
}

Isa needed_by(const RowTable* table) {
  return table == &amx_rows           ? Isa::amx
         : table == &avx512_bf16_rows ? Isa::avx512_bf16
         : table == &avx512_rows      ? Isa::avx512
         : table == &avx2_rows        ? Isa::avx2
                                      : Isa::generic;
}

void append(std::string& list, const std::string& item, const char* separator) {
  list += (list.empty() ? "" : separator) + item;
}

// `has` says which functions of a kernel a table has. A function runs on the first table that has it; a table that
// contributes no function is listed with the reason.
template <typename Has>
KernelChoice explain_rows(const std::string& kernel, Isa isa, const Has& has) {
  KernelChoice choice{kernel, "", ""};
  std::vector<bool> found(has(ref_rows).size(), false);
  for (const RowTable* table : row_tables(Isa::amx)) {
    const Isa needs = needed_by(table);
    if (needs > isa) {
      const char* why = needs > best_isa() ? "not on this machine" : "not asked for";
      append(choice.refused, std::string(table->name) + ": " + why, ", ");
      continue;
    }
    if (std::find(found.begin(), found.end(), false) == found.end())
      break;  // nothing is left for slower ones
    const std::vector<bool> functions = has(*table);
    bool used = false;
    for (size_t i = 0; i < functions.size(); ++i) {
      used = used || (functions[i] && !found[i]);
      found[i] = found[i] || functions[i];
    }
    if (used) append(choice.chosen, table->name, " + ");
    if (!used && table != &ref_rows) append(choice.refused, std::string(table->name) + ": not written", ", ");
  }
  return choice;
}

template <typename Rows, typename... Functions>
void explain(std::vector<KernelChoice>& choices, const char* name, Isa isa, Rows (RowTable::*operation)[3],
             Functions Rows::*... functions) {
  const char* const types[] = {"f32", "bf16", "f16"};
  for (int type = 0; type < 3; ++type)
    choices.push_back(explain_rows(std::string(name) + " " + types[type], isa, [&](const RowTable& table) {
      const Rows& rows = (table.*operation)[type];
      return std::vector<bool>{(rows.*functions != nullptr)...};
    }));
}

}  // namespace

std::unique_ptr<Queue> make_cpu_queue(ThreadPool* pool, Isa isa) {
  check(isa <= best_isa(), "instruction set: got {}, but this machine has no more than {}", isa_name(isa),
        isa_name(best_isa()));
  return std::make_unique<Queue>(Device::cpu, isa, pool, &cpu_table());
}

std::unique_ptr<Queue> make_null_queue(Isa isa) {
  return std::make_unique<Queue>(Device::null, isa, nullptr, &cpu_table());
}

std::vector<KernelChoice> explain_kernels(Isa isa) {
  std::vector<KernelChoice> all = explain_gemm(isa);
  explain(all, "attention", isa, &RowTable::attention, &AttentionRows::forward, &AttentionRows::backward);
  for (const auto& [name, type] : {std::pair{"f32", kF32}, {"bf16", kBf16}, {"f16", kF16}})
    all.push_back(explain_rows(std::string("attention with terms of scores ") + name, isa,
                               [type = type](const RowTable& table) {
                                 return std::vector<bool>{table.attention[type].takes_terms};
                               }));
  explain(all, "cross_entropy", isa, &RowTable::cross_entropy, &CrossEntropyRows::row,
          &CrossEntropyRows::normalize, &CrossEntropyRows::gradient);
  explain(all, "dropout", isa, &RowTable::dropout, &DropoutRows::apply);
  explain(all, "elementwise", isa, &RowTable::elementwise, &ElementwiseRows::add,
          &ElementwiseRows::column_sum, &ElementwiseRows::from_f32, &ElementwiseRows::to_f32);
  explain(all, "embedding", isa, &RowTable::embedding, &EmbeddingRows::add_rows, &EmbeddingRows::backward);
  explain(all, "gelu", isa, &RowTable::gelu, &GeluRows::forward, &GeluRows::backward,
          &GeluRows::exact_forward, &GeluRows::exact_backward);
  explain(all, "layer_norm", isa, &RowTable::layer_norm, &LayerNormRows::forward, &LayerNormRows::backward,
          &LayerNormRows::backward_weight);
  explain(all, "optimizer", isa, &RowTable::optimizer, &OptimizerRows::adamw, &OptimizerRows::sgd,
          &OptimizerRows::lamb_update);
  explain(all, "rms_norm", isa, &RowTable::rms_norm, &RmsNormRows::forward, &RmsNormRows::backward,
          &RmsNormRows::backward_weight);
  explain(all, "rope", isa, &RowTable::rope, &RopeRows::apply);
  explain(all, "swiglu", isa, &RowTable::swiglu, &SwigluRows::forward, &SwigluRows::backward);
  explain(all, "token_rows", isa, &RowTable::token_rows, &TokenRows::sum_rows, &TokenRows::scale_row,
          &TokenRows::dot);
  all.push_back(explain_rows("router f32", isa, [](const RowTable& table) {
    return std::vector<bool>{table.router.forward != nullptr, table.router.backward != nullptr};
  }));
  all.push_back(explain_rows("sums f32", isa, [](const RowTable& table) {
    return std::vector<bool>{table.f32.accumulate != nullptr, table.f32.scale != nullptr,
                             table.f32.sum_squares != nullptr};
  }));
  return all;
}

}  // namespace athanor::kernels
