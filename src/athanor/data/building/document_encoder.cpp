#include "athanor/data/building/document_encoder.h"

#include "athanor/base/check.h"
#include "athanor/base/interrupted.h"
#include "athanor/data/instructions/instruction_encoder.h"

namespace athanor::data::building {
namespace {

// Size of a batch of documents that all threads encode together; nothing is read meanwhile. Small enough to keep in
// memory, large enough that waiting for the last thread does not matter.
constexpr size_t kBatchBytes = size_t{8} << 20;
constexpr size_t kBatchDocuments = 8192;

bool is_stopped(const TokenizeOptions& options) {
  return options.stop != nullptr && options.stop->load() != 0;
}

}  // namespace

void refuse_if_stopped(const TokenizeOptions& options) {
  if (is_stopped(options)) throw Interrupted("tokenizing was interrupted");
}

bool DocumentEncoder::add(std::string_view text, const DocumentPlace& place) {
  refuse_if_stopped(options_);
  texts_.emplace_back(text);
  places_.push_back({place.file, place.record, place.line});
  waiting_bytes_ += text.size();
  if (waiting_bytes_ < kBatchBytes && texts_.size() < kBatchDocuments) return false;
  finish_batch();
  return true;
}

MaskedIds DocumentEncoder::encode(size_t document) const {
  const std::string& text = texts_[document];
  if (options_.instructions != nullptr)
    return options_.instructions->encode(
        text, fmt::format("'{}' line {}", places_[document].file, places_[document].line));
  return {
      .ids = options_.fim != nullptr ? options_.fim->encode_document(text) : tokenizer_.encode_document(text),
      .loss_mask = {},
      .text_bytes = static_cast<int64_t>(text.size())};
}

void DocumentEncoder::finish_batch() {
  std::vector<MaskedIds> documents(texts_.size());
  pool_.parallel_for(static_cast<int64_t>(texts_.size()), [&](int64_t i) {
    if (!is_stopped(options_)) documents[static_cast<size_t>(i)] = encode(static_cast<size_t>(i));
  });
  refuse_if_stopped(options_);
  for (size_t i = 0; i < documents.size(); ++i)
    writer_->add_document(documents[i].ids, documents[i].text_bytes, documents[i].loss_mask, &places_[i]);
  texts_.clear();
  places_.clear();
  waiting_bytes_ = 0;
}

}  // namespace athanor::data::building
