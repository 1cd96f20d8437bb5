#include "athanor/parallel/expert/expert_parallel.h"

#include <algorithm>
#include <numeric>

#include "athanor/autograd/apply.h"
#include "athanor/kernels/table.h"

namespace athanor::parallel::expert {
namespace {

int64_t sum_of(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

// The dispatch plan of one pass. Rows are received by source rank, sorted by expert within a rank; experts need them
// sorted by expert, then by rank.
struct AllToAllPlan : DispatchPlan {
  explicit AllToAllPlan(Group& group_of_experts) : group(group_of_experts) {}

  Group& group;
  std::vector<int64_t> sent, received;  // rows to and from each rank
  Tensor order;                         // [R'] i32: the received row of each sorted row
  Tensor places;                        // [R',1] i32: the sorted row of each received row

  // The all-to-all under way, with its source; one at a time.
  struct Transfer {
    Tensor from;
    Work work;
  };
  Transfer transfer;
};

// Worst case for the memory plan (null device): all tokens of all ranks choose the experts of one rank, up to capacity.
std::vector<int64_t> most_received(const Routing& routing, const AllToAllPlan& plan) {
  const int64_t tokens = std::max(routing.most_tokens, routing.experts.dim(0)),
                experts = std::ssize(routing.counts.kept) / plan.group.size();
  const std::vector<int64_t> capacity(static_cast<size_t>(routing.capacity > 0 ? experts : 0),
                                      routing.capacity);
  return most_rows(tokens, routing.experts.dim(1), experts, capacity);
}

// counts [P, E/P]: rows from each rank for each expert of this rank.
void order_rows(AllToAllPlan& plan, const std::vector<int64_t>& counts) {
  const auto experts = plan.counts.size(), ranks = plan.received.size();
  std::vector<int64_t> next(experts * ranks, 0);  // by (rank, expert): the next free sorted row
  int64_t row = 0;
  for (size_t e = 0; e < experts; ++e)
    for (size_t rank = 0; rank < ranks; ++rank) {
      next[rank * experts + e] = row;
      row += counts[rank * experts + e];
    }
  int32_t received = 0;
  for (size_t part = 0; part < counts.size(); ++part)
    for (int64_t i = 0; i < counts[part]; ++i, ++received) {
      const int64_t sorted = next[part] + i;
      plan.order.data<int32_t>()[sorted] = received;
      plan.places.data<int32_t>()[received] = static_cast<int32_t>(sorted);
    }
}

// Starts the all-to-all of rows x; the returned buffer is filled after finish_transfer().
Tensor start_transfer(AllToAllPlan& plan, const Tensor& x, const std::vector<int64_t>& to,
                      const std::vector<int64_t>& from, const char* name) {
  const int64_t width = x.dim(1);
  Tensor buffer = empty(x.arena(), {sum_of(from), width}, x.dtype(), Category::communication);
  std::vector<int64_t> send = to, receive = from;
  for (int64_t& count : send) count *= width;
  for (int64_t& count : receive) count *= width;
  plan.transfer = {x, plan.group.all_to_all_v(x.raw(), send, buffer.raw(), receive, x.dtype(), name)};
  return buffer;
}

Tensor finish_transfer(AllToAllPlan& plan, const Tensor& buffer) {
  plan.transfer.work.wait(buffer.queue());
  plan.transfer = {};
  return buffer;
}

Tensor permuted(const Tensor& x, const Tensor& order) {
  Tensor y = empty_like(x);
  kernels_of(x).token_rows.gather(x.queue(), y, x, order);
  return y;
}

Tensor send_to_experts(AllToAllPlan& plan, const Tensor& rows) {
  return start_transfer(plan, rows, plan.sent, plan.received, "rows to experts");
}
Tensor receive_at_experts(AllToAllPlan& plan, const Tensor& buffer) {
  return permuted(finish_transfer(plan, buffer), plan.order);
}
Tensor send_to_sources(AllToAllPlan& plan, const Tensor& results) {
  const Tensor received = permuted(results, plan.places.view({plan.places.dim(0)}));
  return start_transfer(plan, received, plan.received, plan.sent, "rows from experts");
}
Tensor receive_at_sources(AllToAllPlan& plan, const Tensor& buffer) {
  return finish_transfer(plan, buffer);
}

// Half of an exchange as a differentiable operation. The backward pass of a start is the finish of the opposite
// exchange; the backward pass of a finish is the start of the opposite exchange. The tensor between start and finish is
// the receive buffer, with the receiver's shape.
using Step = Tensor (*)(AllToAllPlan&, const Tensor&);
template <Step kForward, Step kBackward>
struct TransferHalf {
  struct Saved {
    std::shared_ptr<AllToAllPlan> plan;
  };
  static Tensor forward(Saved& saved, const PassContext&, const Tensor& x,
                        const std::shared_ptr<AllToAllPlan>& plan) {
    saved = {plan};
    return kForward(*plan, x);
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    return {kBackward(*saved.plan, dy)};
  }
};

template <Step kForward, Step kBackward>
Var transfer_half(const Var& x, const std::shared_ptr<DispatchPlan>& plan) {
  return apply<TransferHalf<kForward, kBackward>>(*x.tape, x, std::static_pointer_cast<AllToAllPlan>(plan));
}

}  // namespace

std::shared_ptr<DispatchPlan> ExpertParallel::plan(const Tensor& x, const Routing& routing) {
  auto plan = std::make_shared<AllToAllPlan>(group_);
  const auto ranks = static_cast<size_t>(group_.size());
  const std::vector<int64_t>& counts = routing.counts.kept;
  const size_t experts = counts.size() / ranks;
  const bool is_plan = x.queue().device() == Device::null;
  std::vector<int64_t> incoming(counts.size());
  if (is_plan) {
    for (size_t rank = 0; rank < ranks; ++rank)
      std::ranges::copy(most_received(routing, *plan),
                        incoming.begin() + static_cast<std::ptrdiff_t>(rank * experts));
  } else {
    group_
        .all_to_all(counts.data(), incoming.data(), static_cast<int64_t>(experts), Dtype::i64,
                    "rows per expert")
        .wait();
  }
  plan->counts.assign(experts, 0);
  for (size_t rank = 0; rank < ranks; ++rank) {
    const auto of_rank = [&](const std::vector<int64_t>& of) {
      const auto first = of.begin() + static_cast<std::ptrdiff_t>(rank * experts);
      return std::accumulate(first, first + static_cast<std::ptrdiff_t>(experts), int64_t{0});
    };
    plan->sent.push_back(of_rank(counts));
    plan->received.push_back(of_rank(incoming));
    for (size_t e = 0; e < experts; ++e) plan->counts[e] += incoming[rank * experts + e];
  }
  const int64_t rows = sum_of(plan->received);
  plan->order = empty(x.arena(), {rows}, Dtype::i32, Category::activations);
  plan->places = empty(x.arena(), {rows, 1}, Dtype::i32, Category::activations);
  if (!is_plan) order_rows(*plan, incoming);
  return plan;
}

Var ExpertParallel::start_dispatch(const Var& rows, const std::shared_ptr<DispatchPlan>& plan) {
  return transfer_half<send_to_experts, receive_at_sources>(rows, plan);
}

Var ExpertParallel::finish_dispatch(const Var& sent, const std::shared_ptr<DispatchPlan>& plan) {
  return transfer_half<receive_at_experts, send_to_sources>(sent, plan);
}

Var ExpertParallel::start_combine(const Var& results, const std::shared_ptr<DispatchPlan>& plan) {
  return transfer_half<send_to_sources, receive_at_experts>(results, plan);
}

Var ExpertParallel::finish_combine(const Var& sent, const std::shared_ptr<DispatchPlan>& plan) {
  return transfer_half<receive_at_sources, send_to_experts>(sent, plan);
}

}  // namespace athanor::parallel::expert
