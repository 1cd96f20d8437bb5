#include "athanor/parallel/data/bucket_exchange.h"

#include <fmt/format.h>

namespace athanor::parallel::data {

std::string ExchangeState::prefix(int of_rank) const {
  switch (kind) {
    case StateKind::residual:
      return "error_feedback." + std::to_string(of_rank) + "." + weight->use();
    case StateKind::sum_residual:
      return "server_error." + weight->use();
    case StateKind::factor:
      break;
  }
  return "factor." + weight->use();
}

}  // namespace athanor::parallel::data
