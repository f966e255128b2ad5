#include <cxxabi.h>

#include <string>
#include <string_view>

#include <pharos/actors/exceptions.hpp>

#include "program/function_table.hpp"

namespace pharos {
namespace {

// Throws the exception that an error carries. Returns if no function of this program declares its type, or if its bytes
// cannot be decoded.
void rethrow(const Error::Thrown& thrown) {
  for (const detail::Function& function : actors::function_table()) {
    for (const detail::ThrownType& type : function.throws) {
      if (type.type->name() != thrown.type) continue;
      Decoder decoder{thrown.value};
      return type.rethrow(decoder);
    }
  }
}

/// What an exception says, without the frames that libtorch's exceptions list behind it.
std::string_view said_by(const std::exception& exception) {
  const std::string_view said = exception.what();
  return said.substr(0, said.find("\nException raised from "));
}

}  // namespace

void throw_error(Error error) {
  if (error.thrown()) rethrow(*error.thrown());
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
    case ErrorCode::kExhausted: throw Exhausted{std::move(error)};
    case ErrorCode::kObjectLost: throw ObjectLost{std::move(error)};
    case ErrorCode::kOwnerDied: throw OwnerDied{std::move(error)};
    case ErrorCode::kCancelled: throw Cancelled{std::move(error)};
    default: throw Exception{std::move(error)};
  }
}

Error detail::current_exception() {
  const std::type_info* const type = abi::__cxa_current_exception_type();
  const std::string name = type == nullptr ? "an exception of unknown type" : actors::readable_name(type->name());
  try {
    throw;
  } catch (const Exception& e) {
    return e.error();
  } catch (const EncodedTooLarge& e) {
    return {ErrorCode::kInvalidArgument, e.what()};
  } catch (const std::exception& e) {
    return {ErrorCode::kUserError, "threw " + name + ": " + std::string{said_by(e)}};
  } catch (...) {
    return {ErrorCode::kUserError, "threw " + name};
  }
}

Error detail::cannot_travel(const char* what, const Encoder& encoded) {
  return {ErrorCode::kInvalidArgument,
          std::string{what} + " cannot travel to another process: " + std::string{to_string(encoded.failure())}};
}

}  // namespace pharos
