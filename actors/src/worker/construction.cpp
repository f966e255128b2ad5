#include "worker/construction.hpp"

#include <utility>

#include "program/function_table.hpp"
#include "results/large_values.hpp"
#include "worker/guarded.hpp"
#include "worker/running.hpp"

namespace pharos::actors {

using detail::Function;
using detail::FunctionKind;

std::optional<Error> construct_actor(Workplace& workplace, const wire::ConstructActor& actor) {
  const auto functions = function_table();
  if (actor.constructor >= functions.size() || functions[actor.constructor].kind != FunctionKind::kConstructor) {
    return Error{ErrorCode::kFunctionNotFound, "the worker's executable does not have the actor's constructor",
                 "Caller and worker must be the same build."};
  }
  const Function& constructor = functions[actor.constructor];
  workplace.take_actor(constructor, actor);
  workplace.note_begin(constructor, workplace.platform().now(), CallerId{}, 0, false);
  Running running{workplace, constructor, nullptr, 0, actor.trace, false};
  const UserCode inside{running};
  const auto error = guarded(constructor, [&] {
    const std::uint8_t flags = actor.in_pieces ? wire::kInPieces : wire::kNoFlags;
    const Arrived arrived{workplace.caller()->large_values(), flags, actor.arguments, nullptr};
    Decoder arguments = arrived.decoder();
    workplace.instance().object = constructor.construct(arguments);
  });
  workplace.end_if_child();
  workplace.note_end();
  if (!error) return std::nullopt;
  Error died =
      Error{ErrorCode::kActorDied, "the actor's constructor failed: " + error->story(), error->remedy()}.with_outcome(
          Outcome::kNotStarted);
  return error->thrown() ? std::move(died).with_thrown(*error->thrown()) : died;
}

}  // namespace pharos::actors
