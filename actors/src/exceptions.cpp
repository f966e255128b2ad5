#include <pharos/actors/exceptions.hpp>

namespace pharos {

void throw_error(Error error) {
  switch (error.code()) {
    case ErrorCode::kActorDied: throw ActorDied{std::move(error)};
    case ErrorCode::kWorkerDied: throw WorkerDied{std::move(error)};
    case ErrorCode::kUserError: throw UserError{std::move(error)};
    case ErrorCode::kDeadlineExceeded: throw DeadlineExceeded{std::move(error)};
    case ErrorCode::kFunctionNotFound: throw FunctionNotFound{std::move(error)};
    case ErrorCode::kRuntimeStopped: throw RuntimeStopped{std::move(error)};
    case ErrorCode::kPermissionDenied: throw PermissionDenied{std::move(error)};
    case ErrorCode::kAlreadyExists: throw AlreadyExists{std::move(error)};
    case ErrorCode::kNotFound: throw NotFound{std::move(error)};
    case ErrorCode::kInvalidArgument: throw InvalidArgument{std::move(error)};
    case ErrorCode::kFailedPrecondition: throw FailedPrecondition{std::move(error)};
    case ErrorCode::kUnavailable: throw Unavailable{std::move(error)};
    case ErrorCode::kOverloaded: throw Overloaded{std::move(error)};
    default: throw Exception{std::move(error)};
  }
}

}  // namespace pharos
