#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
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
  /// `host`: where ranks of other machines reach this one; empty: nowhere.
  static Result<Offered> make(std::uint32_t ranks, const std::string& host, const CommunicatorOptions& options);

  const detail::RankOffer& offer() const { return offer_; }
  bool is(const detail::RankOffer& offer) const { return offer.name == offer_.name; }
  /// With all ranks, whose offers these are, in their order. Comes back when all have come.
  Result<std::unique_ptr<detail::Backend>> work_together(const std::vector<detail::RankOffer>& offers,
                                                         const detail::RankKey& key, std::uint32_t rank,
                                                         const CommunicatorOptions& options) const;

 private:
  Offered(Fd meeting, Fd listener, detail::RankOffer offer)
      : meeting_{std::move(meeting)}, listener_{std::move(listener)}, offer_{std::move(offer)} {}

  Fd meeting_;
  Fd listener_;  // none: other machines do not reach this one
  detail::RankOffer offer_;
};

}  // namespace pharos::ml
