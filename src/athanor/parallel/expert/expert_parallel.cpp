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
struct Trip : ExpertTrip {
  explicit Trip(Group& group_of_experts) : group(group_of_experts) {}

  Group& group;
  std::vector<int64_t> sent, received;  // rows to and from each rank
  Tensor order;                         // [R'] i32: the received row of each sorted row
  Tensor places;                        // [R',1] i32: the sorted row of each received row

  // The all-to-all under way, with its source; one at a time.
  struct Flight {
    Tensor from;
    Work work;
  };
  Flight flight;
};

// Worst case for the memory plan (null device): all tokens of all ranks choose the experts of one rank, up to capacity.
std::vector<int64_t> most_arriving(const Routing& routing, const Trip& trip) {
  const int64_t tokens = std::max(routing.most_tokens, routing.experts.dim(0)),
                experts = std::ssize(routing.counts.kept) / trip.group.size();
  const std::vector<int64_t> capacity(static_cast<size_t>(routing.capacity > 0 ? experts : 0),
                                      routing.capacity);
  return most_rows(tokens, routing.experts.dim(1), experts, capacity);
}

// counts [P, E/P]: rows from each rank for each expert of this rank.
void order_rows(Trip& trip, const std::vector<int64_t>& counts) {
  const auto experts = trip.counts.size(), ranks = trip.received.size();
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
      trip.order.data<int32_t>()[sorted] = received;
      trip.places.data<int32_t>()[received] = static_cast<int32_t>(sorted);
    }
}

// Starts the all-to-all of rows x; the returned buffer is filled after land().
Tensor fly(Trip& trip, const Tensor& x, const std::vector<int64_t>& to, const std::vector<int64_t>& from,
           const char* name) {
  const int64_t width = x.dim(1);
  Tensor buffer = empty(x.arena(), {sum_of(from), width}, x.dtype(), Category::communication);
  if (x.queue().device() == Device::null) return buffer;
  std::vector<int64_t> send = to, receive = from;
  for (int64_t& count : send) count *= width;
  for (int64_t& count : receive) count *= width;
  trip.flight = {x, trip.group.all_to_all_v(x.raw(), send, buffer.raw(), receive, x.dtype(), name)};
  return buffer;
}

Tensor land(Trip& trip, const Tensor& buffer) {
  trip.flight.work.wait();
  trip.flight = {};
  return buffer;
}

Tensor permuted(const Tensor& x, const Tensor& order) {
  Tensor y = empty_like(x);
  kernels_of(x).token_rows.gather(x.queue(), y, x, order);
  return y;
}

Tensor start_out(Trip& trip, const Tensor& rows) {
  return fly(trip, rows, trip.sent, trip.received, "rows to experts");
}
Tensor finish_out(Trip& trip, const Tensor& buffer) {
  return permuted(land(trip, buffer), trip.order);
}
Tensor start_home(Trip& trip, const Tensor& results) {
  const Tensor received = permuted(results, trip.places.view({trip.places.dim(0)}));
  return fly(trip, received, trip.received, trip.sent, "rows from experts");
}
Tensor finish_home(Trip& trip, const Tensor& buffer) {
  return land(trip, buffer);
}

// Half of an exchange as a differentiable operation. The backward pass of a start is the finish of the opposite
// exchange; the backward pass of a finish is the start of the opposite exchange. The tensor between start and finish is
// the receive buffer, with the receiver's shape.
using Step = Tensor (*)(Trip&, const Tensor&);
template <Step kForward, Step kBackward>
struct Leg {
  struct Saved {
    std::shared_ptr<Trip> trip;
  };
  static Tensor forward(Saved& saved, const PassContext&, const Tensor& x,
                        const std::shared_ptr<Trip>& trip) {
    saved = {trip};
    return kForward(*trip, x);
  }
  static std::array<Tensor, 1> backward_input(const Saved& saved, const Tensor& dy) {
    return {kBackward(*saved.trip, dy)};
  }
};

template <Step kForward, Step kBackward>
Var leg(const Var& x, const std::shared_ptr<ExpertTrip>& trip) {
  return apply<Leg<kForward, kBackward>>(*x.tape, x, std::static_pointer_cast<Trip>(trip));
}

}  // namespace

std::shared_ptr<ExpertTrip> ExpertParallel::plan(const Tensor& x, const Routing& routing) {
  auto trip = std::make_shared<Trip>(group_);
  const auto ranks = static_cast<size_t>(group_.size());
  const std::vector<int64_t>& counts = routing.counts.kept;
  const size_t experts = counts.size() / ranks;
  const bool is_plan = x.queue().device() == Device::null;
  std::vector<int64_t> arriving(counts.size());
  if (is_plan) {
    for (size_t rank = 0; rank < ranks; ++rank)
      std::ranges::copy(most_arriving(routing, *trip),
                        arriving.begin() + static_cast<std::ptrdiff_t>(rank * experts));
  } else {
    group_
        .all_to_all(counts.data(), arriving.data(), static_cast<int64_t>(experts), Dtype::i64,
                    "rows per expert")
        .wait();
  }
  trip->counts.assign(experts, 0);
  for (size_t rank = 0; rank < ranks; ++rank) {
    const auto of_rank = [&](const std::vector<int64_t>& of) {
      const auto first = of.begin() + static_cast<std::ptrdiff_t>(rank * experts);
      return std::accumulate(first, first + static_cast<std::ptrdiff_t>(experts), int64_t{0});
    };
    trip->sent.push_back(of_rank(counts));
    trip->received.push_back(of_rank(arriving));
    for (size_t e = 0; e < experts; ++e) trip->counts[e] += arriving[rank * experts + e];
  }
  const int64_t rows = sum_of(trip->received);
  trip->order = empty(x.arena(), {rows}, Dtype::i32, Category::activations);
  trip->places = empty(x.arena(), {rows, 1}, Dtype::i32, Category::activations);
  if (!is_plan) order_rows(*trip, arriving);
  return trip;
}

Var ExpertParallel::depart(const Var& rows, const std::shared_ptr<ExpertTrip>& trip) {
  return leg<start_out, finish_home>(rows, trip);
}

Var ExpertParallel::arrive(const Var& away, const std::shared_ptr<ExpertTrip>& trip) {
  return leg<finish_out, start_home>(away, trip);
}

Var ExpertParallel::depart_home(const Var& results, const std::shared_ptr<ExpertTrip>& trip) {
  return leg<start_home, finish_out>(results, trip);
}

Var ExpertParallel::come_home(const Var& away, const std::shared_ptr<ExpertTrip>& trip) {
  return leg<finish_home, start_out>(away, trip);
}

}  // namespace athanor::parallel::expert
