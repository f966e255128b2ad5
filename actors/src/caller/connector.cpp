#include "caller/connector.hpp"

#include <utility>

#include <pharos/scheduler/resources.hpp>

namespace pharos::actors {

void Connector::join(CallerId caller, std::weak_ptr<OutgoingCalls::Receiver> receiver) {
  sender_.caller = caller;
  sender_.receiver = std::move(receiver);
}

std::shared_ptr<OutgoingCalls> Connector::open(std::weak_ptr<OutgoingCalls::Observer> observer) const {
  return std::make_shared<OutgoingCalls>(sender_, std::move(observer));
}

void Connector::connect(OutgoingCalls& calls, net::Parcel answer, const std::string& whose) const {
  const auto* const ready = std::get_if<wire::WorkerReady>(&answer.message);
  if (ready == nullptr) {
    return calls.lose(
        Error{ErrorCode::kInternal, "the node answered the request for a worker with an unexpected message"});
  }
  const std::string how = ready->ended.empty() ? " lost its connection while the call was under way"
                                               : " was restarted while the call was under way: " + ready->ended;
  calls.connect(
      platform_->make_call_link(std::move(answer.descriptors.front())),
      {ready->actor, ready->incarnation, ready->max_task_retries, ready->remote},
      Error{ready->out_of_memory ? ErrorCode::kExhausted : ErrorCode::kActorDied, whose + how,
            ready->out_of_memory ? scheduler::kMemoryRemedy : "If its calls may run twice, give it max_task_retries."});
}

}  // namespace pharos::actors
