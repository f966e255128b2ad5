#include "caller/pending_calls.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include <pharos/wire/frame.hpp>

#include "caller/argument_filler.hpp"
#include "program/function_table.hpp"
#include "results/inherited_context.hpp"

namespace pharos::actors {
namespace {

using detail::ArgumentFiller;
using detail::Arguments;
using detail::CellHandle;
using detail::Placeholder;
using detail::RegisteredFunction;
using detail::ResultCell;

// To go to the node of an argument that is smaller costs more than to bring the argument.
constexpr std::size_t kWorthGoingMin = std::size_t{1} << 20;

/// The name of the function that brings this result.
std::string name_of(ResultCell& cell) {
  return readable_name(function_table()[cell.call().function].name());
}

}  // namespace

ResultCell::Call PendingCalls::describe(const RegisteredFunction& function, std::int32_t max_retries,
                                        const ExceptionTypes& retry_on, Deadline deadline) {
  const auto inherited = InheritedContext::of_new_call();
  ResultCell::Call call{.max_retries = wire::retries_of(max_retries),
                        .function = function.index,
                        .trace = inherited.trace,
                        .deadline = std::min(deadline, inherited.deadline)};
  if (const auto* const types = retry_on.registered()) call.retry_on = types->index + 1;
  return call;
}

std::shared_ptr<IncompleteCall> PendingCalls::prepare(const CellHandle& cell, ResultCell::Call call,
                                                      const Arguments& arguments) {
  if (arguments.bytes.failed()) [[unlikely]] {
    cell->set_error(not_encoded("an argument", arguments.bytes).with_outcome(Outcome::kNotStarted));
    return nullptr;
  }
  for (const auto& kept : arguments.context.actors) cell->call().keep(kept);
  if (arguments.placeholders().empty() && !arguments.bytes.in_room()) [[likely]] {
    cell->set_call(call, arguments.bytes);
    return nullptr;
  }
  std::shared_ptr<object_store::Object> object;
  if (arguments.bytes.in_room()) cell->call().keep_argument(object = room_of(arguments.bytes).seal());
  const bool all_there = std::all_of(arguments.placeholders().begin(), arguments.placeholders().end(),
                                     [](const auto& placeholder) { return placeholder.there(); });
  // The cell keeps these until the call has ended: the callee reads the objects in the store, and takes its own share
  // of the actors whose handles are in a result.
  for (const Placeholder& placeholder : arguments.placeholders()) {
    if (placeholder.object != nullptr) {
      cell->call().keep_argument(placeholder.object);
    } else {
      cell->call().keep(std::make_shared<const CellHandle>(placeholder.cell));
    }
  }
  const auto own_bytes = [&] { return object == nullptr ? arguments.bytes.flattened() : std::vector<std::byte>{}; };
  if (all_there) {
    ArgumentFiller filled{*large_values_};
    if (auto missing = filled.fill(own_bytes(), object.get(), arguments.placeholders())) {
      cell->set_error(std::move(*missing));
    } else {
      const Encoder& payload = filled.payload(call.flags);
      cell->set_call(call, payload);
    }
    return nullptr;
  }
  cell->set_call(call);
  auto incomplete = std::make_shared<IncompleteCall>();
  incomplete->cell = cell;
  incomplete->bytes = own_bytes();
  incomplete->object = std::move(object);
  incomplete->placeholders = arguments.placeholders();
  return incomplete;
}

NodeId PendingCalls::worth_going_to(const std::vector<Placeholder>& arguments, NodeId here) {
  std::map<NodeId, std::size_t> bytes;
  for (const Placeholder& placeholder : arguments) {
    if (placeholder.what == Placeholder::kObject) {
      bytes[placeholder.object->nearest()] += placeholder.size;
    } else if (const auto* const stored = placeholder.cell.ready() ? placeholder.cell->stored() : nullptr) {
      bytes[stored->object->nearest()] += stored->size;
    }
  }
  const std::size_t bytes_here = bytes[here];
  const auto most =
      std::max_element(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most->second >= bytes_here + kWorthGoingMin ? most->first : NodeId{};
}

void PendingCalls::complete_later(const std::shared_ptr<IncompleteCall>& incomplete,
                                  async::UniqueFunction<void(std::optional<Error>)> then) {
  incomplete->then = std::move(then);
  incomplete->missing.store(incomplete->placeholders.size());
  const auto filled_one = [self = weak_from_this(), incomplete] {
    if (incomplete->missing.fetch_sub(1) != 1) return;
    const auto calls = self.lock();
    if (calls == nullptr) return;
    calls->executor_.post([self, incomplete] {
      if (const auto there = self.lock()) there->complete(incomplete);
    });
  };
  {
    const std::lock_guard lock{mutex_};
    incomplete->place = ++last_incomplete_;
    incomplete_.emplace(incomplete->place, incomplete);
  }
  incomplete->kept.resize(incomplete->placeholders.size());
  for (std::size_t i = 0; i < incomplete->placeholders.size(); ++i) {
    const Placeholder& placeholder = incomplete->placeholders[i];
    if (!placeholder.cell) {
      filled_one();
    } else {
      placeholder.cell->when_ready([incomplete, filled_one, i] {
        if (!ArgumentFiller::reads(incomplete->placeholders[i])) return filled_one();
        incomplete->placeholders[i].cell->when_readable([incomplete, filled_one, i](std::shared_ptr<const void> kept) {
          incomplete->kept[i] = std::move(kept);
          filled_one();
        });
      });
    }
  }
}

void PendingCalls::complete(const std::shared_ptr<IncompleteCall>& incomplete) {
  {
    const std::lock_guard lock{mutex_};
    if (incomplete_.erase(incomplete->place) == 0) return;  // it was given up, or failed with everything else
  }
  ArgumentFiller filled{*large_values_};
  auto missing = filled.fill(incomplete->bytes, incomplete->object.get(), incomplete->placeholders);
  if (!missing) incomplete->cell->complete_arguments(filled.payload(incomplete->cell->call().flags));
  incomplete->then(std::move(missing));
}

// The cell is claimed first, so that an answer of the worker to the cancellation does not complete it.
void PendingCalls::give_up_at(Deadline deadline, const CellHandle& cell) {
  executor_.run_at(deadline.when(), [self = weak_from_this(), cell] {
    if (!cell->claim()) return;
    const auto calls = self.lock();
    const bool given_up = calls != nullptr && calls->give_up_(*cell);
    const Error passed =
        given_up
            ? Error{ErrorCode::kDeadlineExceeded, "the deadline of the call has passed",
                    "Give the call a later deadline, or have fewer calls under way."}
            : Error{ErrorCode::kDeadlineExceeded, "the deadline of the call has passed; the call may still be running",
                    "Give the call a later deadline. The function can ask pharos::cancelled() whether to stop."};
    cell->fail_claimed(
        Error{passed}.with(name_of(*cell)).with_outcome(given_up ? cell->call().outcome_unsent() : Outcome::kUnknown));
  });
}

bool PendingCalls::forget(const ResultCell& cell) {
  const std::lock_guard lock{mutex_};
  return std::erase_if(incomplete_, [&](const auto& each) { return &*each.second->cell == &cell; }) != 0;
}

std::vector<CellHandle> PendingCalls::missing_arguments(const ResultCell& cell) const {
  std::vector<CellHandle> missing;
  const std::lock_guard lock{mutex_};
  for (const auto& [number, each] : incomplete_) {
    if (&*each->cell != &cell) continue;
    for (const Placeholder& placeholder : each->placeholders) {
      if (!placeholder.there()) missing.push_back(placeholder.cell);
    }
  }
  return missing;
}

void PendingCalls::fail_all(const Error& why) {
  std::map<std::uint64_t, std::shared_ptr<IncompleteCall>> incomplete;
  {
    const std::lock_guard lock{mutex_};
    incomplete.swap(incomplete_);
  }
  for (const auto& [place, each] : incomplete) each->cell->set_error(Error{why}.with_outcome(Outcome::kNotStarted));
}

}  // namespace pharos::actors
