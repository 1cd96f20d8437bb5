// BERT and RoBERTa in Hugging Face's form: model_type "bert" (BertForMaskedLM, BertForPreTraining) and "roberta"
// (RobertaForMaskedLM), which names its head otherwise and begins its positions at the id of padding + 1. The pooler and the
// next-sentence head are left out, as they are no part of masked language modelling. Used by models/hf.h.
//
//   ModelConfig model = bert::bert_hf().read(HfConfig(text, "config.json"));
//
// Errors and thread rule: as models/hf_family.h.
#pragma once

#include "athanor/models/hf_family.h"

namespace athanor::models::bert {

const HfFamily& bert_hf();
const HfFamily& roberta_hf();

// RoBERTa, or the plain one: their files differ.
bool is_roberta(const ModelConfig& model);

}  // namespace athanor::models::bert
