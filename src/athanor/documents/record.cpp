#include "athanor/documents/record.h"

#include <fmt/core.h>

namespace athanor::documents {

RecordError::RecordError(const std::string& name, int64_t line, Refusal refusal)
    : Error(fmt::format("'{}' line {}: {}", name, line, refusal.detail)), refusal_(std::move(refusal)) {}

}  // namespace athanor::documents
