#pragma once

#include <type_traits>
#include <variant>

#include <pharos/wire/message.hpp>

namespace pharos::node {

/// Returns whether a node repeats this message to a head that has started again, unless the earlier head has confirmed
/// it. These are the messages whose content is neither in a Report nor in the questions without an answer. A pure
/// function; node (ToHead) and head (Head::on_message()) count these messages alike.
inline bool is_said_again(const wire::Message& message) {
  if (const auto* const made = std::get_if<wire::ActorConstructed>(&message)) return made->failure.has_value();
  return std::holds_alternative<wire::AddJob>(message) || std::holds_alternative<wire::EndJob>(message) ||
         std::holds_alternative<wire::BreakPromise>(message) || std::holds_alternative<wire::KillActor>(message) ||
         std::holds_alternative<wire::RemoveGroup>(message) || std::holds_alternative<wire::IncarnationEnded>(message);
}

}  // namespace pharos::node
