#include "results/thrown.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstring>
#include <string>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/byte_count.hpp>

#include "program/function_table.hpp"
#include "worker/thrower.hpp"

namespace pharos::actors {
namespace {

using detail::ThrownType;

constexpr const char* kDeclare = "Declare the exception's type with pharos::throws to catch it here as that type.";

// Called in a catch block. Encodes the exception that is being handled as one of the declared types, and returns that
// type; null if it is of none. Its own type is preferred to a base class.
const ThrownType* encode_declared(std::span<const ThrownType> declared, Encoder& to) {
  const std::type_info* const thrown = abi::__cxa_current_exception_type();
  const auto itself = std::find_if(declared.begin(), declared.end(),
                                   [&](const ThrownType& each) { return thrown != nullptr && *each.type == *thrown; });
  if (itself != declared.end() && itself->encode(to)) return &*itself;
  const auto base =
      std::find_if(declared.begin(), declared.end(), [&](const ThrownType& each) { return each.encode(to); });
  return base == declared.end() ? nullptr : &*base;
}

Error with_declared(std::span<const ThrownType> declared, Error error) {
  Encoder value;
  const ThrownType* type = nullptr;
  try {
    type = encode_declared(declared, value);
  } catch (...) {
    return {
        error.code(), error.message(),
        "The exception arrives without its fields, because its codec " + detail::current_exception().message() + '.'};
  }
  if (type == nullptr) return {error.code(), error.message(), kDeclare};
  if (value.failed()) {
    return {error.code(), error.message(),
            "The exception arrives without its fields, because they cannot be encoded: " +
                std::string{to_string(value.failure())} + '.'};
  }
  if (value.size() > Error::Thrown::kBytesMax) {
    return {error.code(), error.message(),
            "The exception arrives without its fields, which take " + to_string(ByteCount{value.size()}) +
                "; at most " + to_string(ByteCount{Error::Thrown::kBytesMax}) + " can be sent."};
  }
  return std::move(error).with_thrown({type->type->name(), value.flattened()});
}

}  // namespace

Error error_of_call(const detail::Function& function) {
  const std::string name = readable_name(function.name());
  try {
    throw;
  } catch (const Exception& e) {
    // The error comes from another call that the function made. Whatever the outcome of that call, this one has run.
    return Error{e.error()}.with(name).with_outcome(Outcome::kFailed);
  } catch (const EncodedTooLarge& e) {
    return {ErrorCode::kInvalidArgument, name + ": " + e.what()};
  } catch (...) {
    const std::string place = Thrower::place();
    const std::string thrown = detail::current_exception().message() + (place.empty() ? "" : "; thrown in " + place);
    return with_declared(function.throws, Error{ErrorCode::kUserError, name + ' ' + thrown});
  }
}

Error without_exception(Error error) {
  if (!error.thrown() && error.remedy() != kDeclare) return error;
  return Error{error.code(), error.story()}.with_outcome(error.outcome());
}

}  // namespace pharos::actors
