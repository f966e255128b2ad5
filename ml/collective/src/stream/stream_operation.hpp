#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <pharos/ml/collective/backend.hpp>
#include <pharos/ml/dtype.hpp>

#include "reduce/kernels.hpp"
#include "scratch_buffer.hpp"
#include "stream/stream_plan.hpp"
#include "stream/stream_rows.hpp"

namespace pharos::ml {

/// Floats that travel as bfloat16. Owned by a StreamOperation. The owner's thread converts them before the operation
/// and after it. The floats stay until then, and `buffers` outlives the object, whose destructor gives two buffers
/// back.
class ShortenedFloats {
 public:
  /// Converts `count` floats; the operation has `result.size()` floats as its result.
  ShortenedFloats(const float* from, std::size_t count, std::span<float> result, ScratchBuffers& buffers)
      : buffers_{buffers},
        from_{buffers.take(count * sizeof(BFloat16))},
        to_{buffers.take(result.size() * sizeof(BFloat16))},
        result_{result} {
    shorten(from, reinterpret_cast<BFloat16*>(from_.data()), count);
  }
  ShortenedFloats(ShortenedFloats&&) = delete;
  ~ShortenedFloats() {
    buffers_.give_back(std::move(from_));
    buffers_.give_back(std::move(to_));
  }

  /// The places of the operation's data.
  detail::Places places() const { return {from_.data(), to_.data()}; }
  /// Writes the operation's result as floats.
  void lengthen_result() const {
    lengthen(reinterpret_cast<const BFloat16*>(to_.data()), result_.data(), result_.size());
  }

 private:
  ScratchBuffers& buffers_;
  ScratchBuffer from_;
  ScratchBuffer to_;
  const std::span<float> result_;
};

/// An operation of a StreamBackend. The owner begins it, and the backend's thread does it. The caller's Work,
/// StreamRequests and StreamLoop share it; the latter two drop it when it has ended or all operations have failed. It
/// cannot fail by itself.
class StreamOperation final : public detail::Work {
 public:
  /// The team and `buffers` outlive the operation. `shortened` is set if its data travels as bfloat16.
  StreamOperation(Among among_given, const Team& team_given, const OperationId& order_given, const detail::Step& step,
                  const detail::Places& places, ScratchBuffers& buffers,
                  std::unique_ptr<ShortenedFloats> shortened = nullptr)
      : among{among_given},
        team{team_given},
        order{order_given},
        operation{step.of},
        plan{step.operation, places, team.own, static_cast<std::uint32_t>(team.ranks.size()), buffers},
        shortened_{std::move(shortened)} {}

  /// A description for error messages, such as "barrier, operation 7,".
  std::string describe() const { return to_string(operation) + ", operation " + std::to_string(order.number) + ','; }
  /// Returns whether the rank has begun the operation, or takes no part in it.
  bool is_begun_by(std::uint32_t rank) const {
    const auto place = team.place_of(rank);
    return !place || plan.is_begun_by(*place);
  }
  /// Called on the owner's thread once the operation has ended. A second call does nothing.
  void take_result() {
    if (const auto floats = std::exchange(shortened_, nullptr)) floats->lengthen_result();
  }

  const Among among;
  const Team& team;
  const OperationId order;
  const Operation operation;  ///< The operation on which its ranks agree.
  StreamPlan plan;            ///< Its ranks are places in the team. Used on the backend's thread.
  bool ended = false;         ///< Under the mutex of StreamRequests.

 private:
  std::unique_ptr<ShortenedFloats> shortened_;
};

}  // namespace pharos::ml
