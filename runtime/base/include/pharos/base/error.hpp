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

/// What kind of failure it was, and so what a caller can do about it.
enum class ErrorCode : std::uint8_t {
  kCancelled = 1,       ///< somebody asked for it to stop; never logged
  kDeadlineExceeded,    ///< the time that the caller gave ran out
  kInvalidArgument,     ///< the call can never succeed as it is
  kNotFound,            ///< no such thing here
  kFunctionNotFound,    ///< the receiving executable does not have that function
  kAlreadyExists,       ///< a name or place is taken
  kFailedPrecondition,  ///< right call, wrong moment: do what the message says first
  kPermissionDenied,    ///< no token, a wrong one, or somebody else's files
  kOverloaded,          ///< a bound was reached; try again after a pause
  kUnavailable,         ///< the peer cannot be reached now; try again
  kExhausted,           ///< memory, disk, descriptors or processes ran out
  kObjectLost,          ///< no copy of the object is left
  kOwnerDied,           ///< the process that owned the object is gone
  kActorDied,           ///< the actor is gone for good
  kWorkerDied,          ///< the process that ran the task is gone
  kUserError,           ///< the user's function threw
  kRuntimeStopped,      ///< the Runtime that it belongs to is gone
  kCorrupt,             ///< bytes that make no sense; the connection or file is given up
  kUnsupported,         ///< this build or machine cannot do that
  kInternal,            ///< a bug in Pharos
};

/// Whether a call that failed has run.
enum class Outcome : std::uint8_t {
  kNotStarted,  ///< it did not run: calling again is safe
  kFailed,      ///< it ran and failed
  kUnknown,     ///< it may have run
};

PHAROS_API std::string_view to_string(ErrorCode code);
PHAROS_API std::string_view to_string(Outcome outcome);

/// A failure that carries its story: what failed and why (message), what to do about it (remedy), and what was being
/// attempted around it (context, added by each layer on the way up). A value: copied, moved, sent between processes.
class PHAROS_API Error {
 public:
  /// A user's exception that the error stands for, to be thrown again where it arrives.
  struct Thrown {
    static constexpr std::size_t kBytesMax = 16 << 10;
    std::string type;              ///< mangled
    std::vector<std::byte> value;  ///< at most kBytesMax
  };

  Error(ErrorCode code, std::string message, std::string remedy = {});
  Error(const Error& other);
  Error(Error&&) noexcept = default;
  Error& operator=(const Error& other);
  Error& operator=(Error&&) noexcept = default;
  ~Error() = default;

  /// From errno. `what` says what was attempted: "binding 127.0.0.1:7000".
  static Error from_errno(std::string what, int error_number, std::string remedy = {});

  ErrorCode code() const { return story_->code; }
  Outcome outcome() const { return story_->outcome; }
  const std::string& message() const { return story_->message; }
  const std::string& remedy() const { return story_->remedy; }
  const std::vector<std::string>& context() const { return story_->context; }
  const std::optional<Thrown>& thrown() const { return story_->thrown; }

  /// Adds what was being attempted: "creating actor \"counter\"".
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
  std::unique_ptr<Story> story_;  // never null but after a move
};

}  // namespace pharos
