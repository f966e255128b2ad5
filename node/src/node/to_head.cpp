#include "node/to_head.hpp"

#include "link/said_again.hpp"

namespace pharos::node {

void ToHead::tell(wire::Message message) {
  if (is_said_again(message)) unconfirmed_.push_back(message);
  tell_(std::move(message));
}

void ToHead::confirm(std::uint64_t count) {
  for (; confirmed_ < count && !unconfirmed_.empty(); ++confirmed_) unconfirmed_.pop_front();
}

void ToHead::tell_again() {
  confirmed_ = 0;
  for (const wire::Message& message : unconfirmed_) tell_(message);
}

}  // namespace pharos::node
