#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <pharos/base/export.hpp>

namespace pharos {

/// The kind of a failure. It tells the caller how to react.
enum class ErrorCode : std::uint8_t {
  kCancelled = 1,       ///< the operation was asked to stop; never logged
  kDeadlineExceeded,    ///< the time that the caller gave ran out
  kInvalidArgument,     ///< these arguments can never succeed
  kNotFound,            ///< the named thing does not exist here
  kFunctionNotFound,    ///< the receiving executable does not have the function
  kAlreadyExists,       ///< the name or place is taken
  kFailedPrecondition,  ///< right call, wrong moment: do what the message says first
  kPermissionDenied,    ///< no token, a wrong token, or files of another user
  kOverloaded,          ///< a bound was reached; try again after a pause
  kUnavailable,         ///< the peer cannot be reached now; try again
  kExhausted,           ///< memory, disk, descriptors or processes ran out
  kObjectLost,          ///< no copy of the object is left
  kOwnerDied,           ///< the process that owned the object is gone
  kActorDied,           ///< the actor is gone for good
  kWorkerDied,          ///< the process that ran the task is gone
  kUserError,           ///< the user's function threw an exception
  kRuntimeStopped,      ///< the Runtime that the operation belongs to has stopped
  kCorrupt,             ///< bytes that make no sense; the connection or file is given up
  kUnsupported,         ///< this build or machine does not support the operation
  kInternal,            ///< a bug in Pharos
};

/// Tells whether the function of a failed call has run.
enum class Outcome : std::uint8_t {
  kNotStarted,  ///< the function did not run: calling again is safe
  kFailed,      ///< the function ran and failed
  kUnknown,     ///< the function may have run
};

PHAROS_API std::string_view to_string(ErrorCode code);
PHAROS_API std::string_view to_string(Outcome outcome);

/// A failure with its explanation. The message says which step failed and why, the remedy says how to fix it, and each
/// layer on the way up adds a line of context about its own attempt. A plain value: it can be copied, moved and sent
/// between processes. An object that was moved from can only be assigned to or destroyed.
class PHAROS_API Error {
 public:
  /// An encoded exception of the user's function. The receiving process throws it again. The code that fills it in
  /// keeps to kBytesMax; a larger one is refused as kCorrupt by the receiving process.
  struct Thrown {
    static constexpr std::size_t kBytesMax = 16 << 10;
    std::string type;              ///< mangled name of the exception's type
    std::vector<std::byte> value;  ///< the encoded exception, at most kBytesMax
  };

  Error(ErrorCode code, std::string message, std::string remedy = {});
  Error(const Error& other);
  Error(Error&&) noexcept = default;
  Error& operator=(const Error& other);
  Error& operator=(Error&&) noexcept = default;
  ~Error() = default;

  /// Makes an error from errno; the code follows from the number, and is kUnavailable for numbers without a closer
  /// code. `what` names the attempt: "binding 127.0.0.1:7000".
  static Error from_errno(std::string what, int error_number, std::string remedy = {});

  ErrorCode code() const { return story_->code; }
  Outcome outcome() const { return story_->outcome; }
  const std::string& message() const { return story_->message; }
  const std::string& remedy() const { return story_->remedy; }
  const std::vector<std::string>& context() const { return story_->context; }
  const std::optional<Thrown>& thrown() const { return story_->thrown; }

  /// Adds a line of context that names the caller's attempt: "creating actor \"counter\"".
  Error with(std::string context) &&;
  Error with_outcome(Outcome outcome) &&;
  Error with_thrown(Thrown thrown) &&;

  /// The context and the message: "creating actor "x": message".
  std::string story() const;
  /// One line for people: "creating actor "x": message. Remedy."
  std::string to_string() const;

 private:
  struct Story {
    ErrorCode code;
    Outcome outcome = Outcome::kFailed;
    std::string message;
    std::string remedy;
    std::vector<std::string> context;  // innermost first
    std::optional<Thrown> thrown;
  };
  std::unique_ptr<Story> story_;  // null only after a move
};

}  // namespace pharos
