#pragma once

#include <stdexcept>

#include <pharos/base/error.hpp>
#include <pharos/base/export.hpp>
#include <pharos/wire/encoder.hpp>

namespace pharos {

/// The base of the exceptions of the public interface: an Error as an exception. Each code that a program may want to
/// handle has a class of its own; errors with other codes are thrown as Exception itself. what() tells the whole story,
/// for people. A value: it may be copied and thrown on any thread.
class PHAROS_API Exception : public std::runtime_error {
 public:
  explicit Exception(Error error) : std::runtime_error{error.to_string()}, error_{std::move(error)} {}
  const Error& error() const { return error_; }
  ErrorCode code() const { return error_.code(); }
  /// Says whether the call that failed has run.
  Outcome outcome() const { return error_.outcome(); }

 private:
  Error error_;
};

/// The actor is gone for good, or it was restarted while the call was under way.
class PHAROS_API ActorDied : public Exception {
  using Exception::Exception;
};
/// The process that ran the task is gone.
class PHAROS_API WorkerDied : public Exception {
  using Exception::Exception;
};
/// The user's function threw. The message has the type and the text of its exception. An exception whose type the
/// function declares (pharos::throws) is thrown as it is instead.
class PHAROS_API UserError : public Exception {
  using Exception::Exception;
};
/// The time that the caller gave has passed.
class PHAROS_API DeadlineExceeded : public Exception {
  using Exception::Exception;
};
/// The workers' executable does not have the function.
class PHAROS_API FunctionNotFound : public Exception {
  using Exception::Exception;
};
/// The Runtime has ended, or its node is gone, or this process is a child of fork() and the Runtime is its parent's.
class PHAROS_API RuntimeStopped : public Exception {
  using Exception::Exception;
};
/// The token is missing or wrong, or a folder, a socket or a file belongs to another user.
class PHAROS_API PermissionDenied : public Exception {
  using Exception::Exception;
};
/// An actor with this name exists.
class PHAROS_API AlreadyExists : public Exception {
  using Exception::Exception;
};
/// There is no actor, file or other thing of that name.
class PHAROS_API NotFound : public Exception {
  using Exception::Exception;
};
/// The request can never succeed as it is: no node has the resources, a name is too long, a value cannot travel, …
class PHAROS_API InvalidArgument : public Exception {
  using Exception::Exception;
};
/// The request came at the wrong time or place. The message says what must be done first.
class PHAROS_API FailedPrecondition : public Exception {
  using Exception::Exception;
};
/// The other process cannot be reached now. Try again.
class PHAROS_API Unavailable : public Exception {
  using Exception::Exception;
};
/// A limit is reached: too many calls have no answer, or too many tasks wait. Try again after a pause.
class PHAROS_API Overloaded : public Exception {
  using Exception::Exception;
};
/// Memory, room in the object store, descriptors or processes have run out. Calls throw it, too, when the process of
/// their task or actor was killed because its node ran short of memory.
class PHAROS_API Exhausted : public Exception {
  using Exception::Exception;
};
/// A large value is lost: its process has let go of it, and no copy is left.
class PHAROS_API ObjectLost : public Exception {
  using Exception::Exception;
};
/// A large value is lost, because the process that it belonged to has died.
class PHAROS_API OwnerDied : public ObjectLost {
  using ObjectLost::ObjectLost;
};
/// The call was cancelled. A get() inside of a call that was cancelled throws it, too.
class PHAROS_API Cancelled : public Exception {
  using Exception::Exception;
};

/// Throws the user's exception that the error carries, if a function of this program declares the exception's type and
/// its bytes can be decoded; else the exception class for its code, or Exception itself if the code has no class.
[[noreturn]] PHAROS_API void throw_error(Error error);

namespace detail {

/// To be called in a catch block, on any thread. Returns the exception that is being handled as an error: the Error of
/// a pharos::Exception, kInvalidArgument for a value that is too large to be encoded, and kUserError for all others.
PHAROS_API Error current_exception();
/// Returns the error for a value that could not be encoded: "the result cannot travel to another process: …".
PHAROS_API Error cannot_travel(const char* what, const Encoder& encoded);

}  // namespace detail

}  // namespace pharos
