#pragma once

#include <stdexcept>

#include <pharos/base/error.hpp>
#include <pharos/base/export.hpp>
#include <pharos/wire/encoder.hpp>

namespace pharos {

/// What the public interface throws: an Error, typed by its code. `what()` is the whole story for people.
class PHAROS_API Exception : public std::runtime_error {
 public:
  explicit Exception(Error error) : std::runtime_error{error.to_string()}, error_{std::move(error)} {}
  const Error& error() const { return error_; }
  ErrorCode code() const { return error_.code(); }
  /// Whether the call that failed has run.
  Outcome outcome() const { return error_.outcome(); }

 private:
  Error error_;
};

class PHAROS_API ActorDied : public Exception {
  using Exception::Exception;
};
class PHAROS_API WorkerDied : public Exception {
  using Exception::Exception;
};
/// The user's own function threw; the message names its exception's type and text. (One that the function declares is
/// thrown as it is: pharos::throws.)
class PHAROS_API UserError : public Exception {
  using Exception::Exception;
};
class PHAROS_API DeadlineExceeded : public Exception {
  using Exception::Exception;
};
class PHAROS_API FunctionNotFound : public Exception {
  using Exception::Exception;
};
class PHAROS_API RuntimeStopped : public Exception {
  using Exception::Exception;
};
/// A token, folder, socket or user that does not fit.
class PHAROS_API PermissionDenied : public Exception {
  using Exception::Exception;
};
class PHAROS_API AlreadyExists : public Exception {
  using Exception::Exception;
};
class PHAROS_API NotFound : public Exception {
  using Exception::Exception;
};
class PHAROS_API InvalidArgument : public Exception {
  using Exception::Exception;
};
class PHAROS_API FailedPrecondition : public Exception {
  using Exception::Exception;
};
class PHAROS_API Unavailable : public Exception {
  using Exception::Exception;
};
class PHAROS_API Overloaded : public Exception {
  using Exception::Exception;
};
/// Memory, room in the object store, descriptors or processes ran out. Also of a task or an actor whose process was
/// killed because its node had too little memory.
class PHAROS_API Exhausted : public Exception {
  using Exception::Exception;
};
/// A value whose process has let go of it, or died.
class PHAROS_API ObjectLost : public Exception {
  using Exception::Exception;
};
/// Somebody asked for the call to stop; also thrown by a get() inside of a call that was cancelled.
class PHAROS_API Cancelled : public Exception {
  using Exception::Exception;
};

/// The user's exception that it stands for; else as the class for its code, and Exception itself for codes without one.
[[noreturn]] PHAROS_API void throw_error(Error error);

namespace detail {

/// What is being handled, as an error: a pharos::Exception as itself, anything else as kUserError.
PHAROS_API Error current_exception();
/// Of a value that could not be encoded: "the result cannot travel: …".
PHAROS_API Error cannot_travel(const char* what, const Encoder& encoded);

}  // namespace detail

}  // namespace pharos
