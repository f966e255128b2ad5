#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <pharos/base/clock.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/ml/collective/backend.hpp>
#include <pharos/ml/collective/rank_offer.hpp>
#include <pharos/ml/communicator_options.hpp>

namespace pharos::ml {

/// The offer by which other ranks find this one, and what it names: memory for a Meeting, and a listening socket. It is
/// kept by the process of a member (see offer_member()), or by Communicator::from_environment(), until work_together()
/// has returned: other ranks open the memory in this process by its descriptor. The destructor closes both, so that a
/// rank that still tries to reach this one fails at once. One thread.
class Offered {
 public:
  /// `host` is the address where ranks of other machines reach this one; empty if they do not. kInvalidArgument unless
  /// `ranks` is between 1 and 64; the error of errno, such as kExhausted, if there is no memory or the socket cannot
  /// listen.
  static Result<Offered> make(std::uint32_t ranks, const std::string& host, const CommunicatorOptions& options);

  const detail::RankOffer& offer() const { return offer_; }
  bool is(const detail::RankOffer& offer) const { return offer.name == offer_.name; }
  /// Connects this rank with all ranks. `offers` has their offers in the order of the ranks. Returns when all have
  /// come; each step waits at most for the options' timeout. kDeadlineExceeded if a rank does not come, kActorDied if
  /// one dies meanwhile, kFailedPrecondition if ranks of several machines have no addresses, the error with which
  /// another rank gives up, kPermissionDenied for a rank with another key, and the error of errno.
  Result<std::unique_ptr<detail::Backend>> work_together(const std::vector<detail::RankOffer>& offers,
                                                         const detail::RankKey& key, std::uint32_t rank,
                                                         const CommunicatorOptions& options) const;

 private:
  Offered(Fd meeting, Fd listener, detail::RankOffer offer)
      : meeting_{std::move(meeting)}, listener_{std::move(listener)}, offer_{std::move(offer)} {}

  Fd meeting_;
  Fd listener_;  // none if ranks of other machines do not reach this one
  detail::RankOffer offer_;
};

}  // namespace pharos::ml
