#pragma once

#include <optional>

#include <pharos/actors/thrown.hpp>
#include <pharos/base/error.hpp>

#include "program/function_table.hpp"

namespace pharos::actors {

/// Returns the error of an operation whose Runtime has ended. All functions here are pure, for any thread; the code
/// that refuses an operation calls them.
inline Error stopped() {
  return {ErrorCode::kRuntimeStopped, "the Runtime of this Ref, actor or group has ended",
          "Keep the Runtime alive until the last get()."};
}

/// Returns the error of an operation in a child of fork(), whose parent has the Runtime.
inline Error forked() {
  return {ErrorCode::kRuntimeStopped, "this process is a child of fork(), and the Runtime belongs to its parent",
          "Make a Runtime in the child."};
}

/// The remedy in the error of a call that was cancelled.
constexpr const char* kCallAgain = "Call it again if its result is wanted after all.";

/// Returns the error of a call of a function that is not in the table.
inline Error not_in_table(const detail::Function& function) {
  return Error{ErrorCode::kFunctionNotFound,
               "workers do not have " + readable_name(function.name()) +
                   ": it was loaded into this process after its Runtime began",
               "Link the library that defines it to the program."}
      .with_outcome(Outcome::kNotStarted);
}

/// Returns the error of a call that needs something which is not in the table: its function, or its list of exception
/// types. nullopt if the table has both.
inline std::optional<Error> not_in_table(const detail::RegisteredFunction& function, const ExceptionTypes& retry_on) {
  constexpr std::uint32_t kNoIndex = detail::RegisteredFunction::kNoIndex;
  if (function.index == kNoIndex) return not_in_table(function.function);
  const auto* const types = retry_on.registered();
  return types != nullptr && types->index == kNoIndex ? std::optional{not_in_table(types->function)} : std::nullopt;
}

/// Returns the error of a call of an actor of another build with `retry_on`.
inline Error no_types_there() {
  return Error{ErrorCode::kInvalidArgument, "an actor of another build does not know the types in retry_on",
               "Leave retry_on out, and call again where the exception is caught."}
      .with_outcome(Outcome::kNotStarted);
}

/// Returns the error for a result that was made again and does not have the size of the lost one.
inline Error made_differently() {
  return {ErrorCode::kObjectLost, "a task was run again to replace a lost result, and its new result has another size",
          "Give max_retries only to tasks whose results are the same each time."};
}

/// Returns the error of a call that was cancelled before it began. `function` is an index in the function table, and is
/// not checked.
inline Error cancelled(std::uint32_t function) {
  return Error{ErrorCode::kCancelled, "the call was cancelled", kCallAgain}.with(
      readable_name(function_table()[function].name()));
}

}  // namespace pharos::actors
