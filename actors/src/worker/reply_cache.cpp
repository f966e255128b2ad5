#include "worker/reply_cache.hpp"

#include <pharos/base/check.hpp>

#include "program/safeguard.hpp"

namespace pharos::actors {

ReplyCache::Arrival ReplyCache::arrive(const wire::FrameHeader& call) {
  if (stands(Safeguard::kDeduplication) && call.number < next_) {
    const auto known = calls_.find(call.number);
    if (known == calls_.end()) return Arrival::kForgotten;
    return known->second ? Arrival::kAnswered : Arrival::kUnderWay;
  }
  next_ = call.number + 1;
  calls_.insert_or_assign(call.number, std::nullopt);
  return Arrival::kFirst;
}

void ReplyCache::answer(const wire::FrameHeader& reply, std::span<const std::byte> payload) {
  const auto call = calls_.find(reply.number);
  if (call == calls_.end()) return;
  PHAROS_CHECK(!call->second, reply.number);
  call->second.emplace(Reply{reply, {payload.begin(), payload.end()}});
  bytes_ += payload.size();
}

const ReplyCache::Reply& ReplyCache::reply_to(std::uint64_t number) const {
  return calls_.at(number).value();
}

void ReplyCache::acknowledge_below(std::uint64_t number) {
  for (auto call = calls_.begin(); call != calls_.end() && call->first < number;) {
    const auto next = std::next(call);
    erase(call);
    call = next;
  }
}

void ReplyCache::acknowledge(std::uint64_t number) {
  if (const auto call = calls_.find(number); call != calls_.end()) erase(call);
}

void ReplyCache::forget() {
  calls_.clear();
  bytes_ = 0;
}

// An acknowledgement of a call that still runs is ignored, because no reply to it was sent.
void ReplyCache::erase(Calls::iterator call) {
  if (!call->second) return;
  bytes_ -= call->second->payload.size();
  calls_.erase(call);
}

}  // namespace pharos::actors
