#include <pharos/actors/exceptions.hpp>
#include <pharos/actors/foreign_actor.hpp>
#include <pharos/wire/frame.hpp>

#include "caller/actor_handle.hpp"
#include "worker/method_search.hpp"

namespace pharos::detail {
namespace {

// Returns whether the actor's process died while it had the question, and another process follows.
bool is_restarted(const ActorHandle& actor, const Error& why) {
  const bool died = why.code() == ErrorCode::kActorDied || why.code() == ErrorCode::kExhausted;
  return died && why.outcome() == Outcome::kUnknown && !actor.calls()->lost();
}

}  // namespace

// The question changes nothing, so a process that follows gets it, too.
std::uint32_t find_method(const ActorHandle& actor, const RegisteredFunction& function, const std::string& name,
                          const std::string& declaration, Deadline deadline) {
  for (;;) {
    Arguments& arguments = scratch_arguments(actor, function);
    Codec<actors::SoughtMethod>::encode({name, declaration}, arguments.bytes);
    // Unordered: this thread waits here, and an earlier call may wait for an argument that this thread sets later.
    const CallOptions options{.deadline = deadline, .unordered = true};
    const Ref<std::uint32_t> answer{call_foreign(actor, options, function, wire::kFindMethod, arguments)};
    auto index = answer.try_get();
    if (index) return *index;
    const Error& why = index.error();
    if (is_restarted(actor, why)) continue;
    if (why.code() != ErrorCode::kFunctionNotFound) throw_error(why);
    throw_error(Error{why}.with("actor \"" + actor.label() + '"'));
  }
}

CellHandle call_foreign(const ActorHandle& actor, const CallOptions& options, const RegisteredFunction& function,
                        std::uint32_t index, Arguments& arguments) {
  CellHandle cell = const_cast<ActorHandle&>(actor).call_foreign(options, function, index, arguments);
  arguments.let_go();
  return cell;
}

void send_foreign(const ActorHandle& actor, const CallOptions& options, const RegisteredFunction& function,
                  std::uint32_t index, Arguments& arguments) {
  const_cast<ActorHandle&>(actor).send_foreign(options, function, index, arguments);
  arguments.let_go();
}

}  // namespace pharos::detail
