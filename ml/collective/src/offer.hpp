#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/ml/group.hpp>

#include "backend.hpp"

namespace pharos::ml {

/// How this rank is found by others. Lives until they work together.
class Offered {
 public:
  static Result<Offered> make(std::uint32_t ranks);

  const detail::RankOffer& offer() const { return offer_; }
  bool is(const detail::RankOffer& offer) const { return offer.name == offer_.name; }

 private:
  Offered(Fd meeting, detail::RankOffer offer) : meeting_{std::move(meeting)}, offer_{std::move(offer)} {}

  Fd meeting_;
  detail::RankOffer offer_;
};

/// Comes back when all of them have come. The offers are in the order of the ranks.
Result<std::unique_ptr<detail::Backend>> work_together(const std::vector<detail::RankOffer>& offers, std::uint32_t rank,
                                                       Duration time);

}  // namespace pharos::ml
