#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pharos/actors/member.hpp>
#include <pharos/base/random.hpp>
#include <pharos/ml/collective/core.hpp>
#include <pharos/ml/group.hpp>

#include "launch/offer.hpp"

namespace pharos::ml {
namespace {

/// The state of this process as a member of one group. An actor has a process of its own, so there is at most one
/// member of each group.
struct Membership {
  std::uint64_t term = 0;
  std::optional<Offered> offered{};
  std::optional<Communicator> communicator{};
};

class Memberships {
 public:
  static Memberships& of_process() {
    static auto* const all = new Memberships;  // never destroyed: methods may still use it while the process exits
    return *all;
  }
  /// Returns what the member has in its present term. The offer and communicator of an earlier term are destroyed.
  Membership& of(const Member& member) {
    const std::lock_guard lock{mutex_};
    Membership& its = by_group_[member.group];
    if (its.term != member.term) its = Membership{.term = member.term};
    return its;
  }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, Membership> by_group_;
};

}  // namespace

namespace detail {

RankOffer offer_member(const CommunicatorOptions& options) {
  const Member member = pharos::member();
  const char* const place = std::getenv("PHAROS_NODE_HOST");
  const std::string host = place == nullptr ? "" : place;
  auto offered = Offered::make(member.size, host.starts_with("127.") ? "" : host, options);
  if (!offered) throw_error(offered.error());
  Membership& membership = Memberships::of_process().of(member);
  membership.offered = *std::move(offered);
  return membership.offered->offer();
}

RankKey new_rank_key() {
  RankKey key;
  fill_random(key);
  return key;
}

void throw_unanswered(const std::vector<std::size_t>& by, std::size_t ranks) {
  std::string who;
  for (const std::size_t rank : by) who += (who.empty() ? "rank " : ", rank ") + std::to_string(rank);
  throw_error(Error{ErrorCode::kDeadlineExceeded,
                    "the group cannot be connected, because " + std::to_string(by.size()) + " of " +
                        std::to_string(ranks) + " ranks did not answer: " + who,
                    "Check the processes of these ranks: end those that are stopped, and raise "
                    "CommunicatorOptions::timeout if they are busy."});
}

void join_members(const std::vector<RankOffer>& offers, const RankKey& key, const CommunicatorOptions& options) {
  const Member member = pharos::member();
  Membership& membership = Memberships::of_process().of(member);
  if (!membership.offered || offers.size() != member.size || !membership.offered->is(offers[member.rank])) {
    throw_error(Error{ErrorCode::kFailedPrecondition, "another connect() of this group runs at the same time",
                      "Call connect() once in a term."});
  }
  membership.communicator.reset();
  // The offer is destroyed at the end of this function, also after a failure. Its listener is closed then, and a rank
  // that still tries to reach this one fails at once instead of waiting.
  const Offered offered = *std::exchange(membership.offered, std::nullopt);
  auto backend = offered.work_together(offers, key, member.rank, options);
  if (!backend) throw_error(backend.error());
  membership.communicator.emplace(std::make_shared<Core>(*std::move(backend), options));
}

void give_up_member(const std::string& why) {
  Membership& membership = Memberships::of_process().of(pharos::member());
  if (membership.communicator) membership.communicator->abort(why);
}

}  // namespace detail

Communicator& communicator() {
  const Member member = pharos::member();
  Membership& membership = Memberships::of_process().of(member);
  if (!membership.communicator) {
    throw_error(Error{ErrorCode::kFailedPrecondition,
                      "the group is not connected in term " + std::to_string(member.term),
                      "Call pharos::ml::connect(group) first, and again when a new term has begun."});
  }
  return *membership.communicator;
}

}  // namespace pharos::ml
