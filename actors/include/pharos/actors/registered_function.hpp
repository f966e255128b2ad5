#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>

#include <pharos/async/async.hpp>
#include <pharos/base/export.hpp>
#include <pharos/wire/decoder.hpp>
#include <pharos/wire/encoder.hpp>

/// The program's table of the functions that can be called by name. Static initialisers fill it, so that the driver and
/// its workers, which run the same executable, have the same table. The table and all that its entries refer to live as
/// long as the process.
namespace pharos::detail {

enum class FunctionKind : std::uint8_t {
  kTask,
  kMethod,
  kConstructor,
  kExceptionTypes,
  kForeign,  ///< a method of an actor of another build, which this program only calls
};

/// A type of exceptions that a function declares (pharos::throws), so that they arrive as what they are.
struct ThrownType {
  const std::type_info* type = nullptr;
  /// To be called in a catch block. Encodes the exception that is being handled; false if it is of another type.
  bool (*encode)(Encoder& to) = nullptr;
  /// Decodes an exception and throws it. Returns if the bytes are no exception of this type.
  void (*rethrow)(Decoder& from) = nullptr;
};

struct RegisteredFunction;

/// A method that programs of other builds may call (pharos::methods).
struct OfferedMethod {
  RegisteredFunction* const* function;                       ///< its entry in the table
  std::string (*declaration)(std::string_view method_name);  ///< see Declaration
};

/// A function that a worker can run, a method of another build, or a list of exception types. Only the members that its
/// kind needs are set. A worker calls them on the thread that runs the call; exceptions of the user's function pass
/// through.
struct Function {
  const std::type_info* tag = nullptr;  ///< the type whose name is the name of the function
  FunctionKind kind{};
  void (*call)(void* instance, Decoder& arguments, Encoder& result) = nullptr;
  /// Set instead of `call` for a method that is a coroutine. `arguments` is valid until its first wait, `result` until
  /// its end.
  async::Async<void> (*begin)(void* instance, Decoder* arguments, Encoder* result) = nullptr;
  void* (*construct)(Decoder& arguments) = nullptr;
  void (*destroy)(void* instance) = nullptr;
  /// To be called in a catch block. Returns whether the exception that is being handled is of one of the types.
  bool (*handles)() = nullptr;
  std::span<const ThrownType> throws{};     ///< types of exceptions that it declares
  std::span<const OfferedMethod> offers{};  ///< for a constructor: methods of its class for programs of other builds

  /// The mangled name, which is the same from every compiler of the Itanium ABI.
  const char* name() const { return tag->name(); }
};

/// A Function in the table. It gets its index when the table is sorted, just before main. A function of a library that
/// is loaded later has no index, because workers do not load that library; its calls fail with kFunctionNotFound.
struct RegisteredFunction {
  Function function;
  std::uint32_t index = kNoIndex;
  static constexpr std::uint32_t kNoIndex = ~std::uint32_t{0};
};

/// Adds a function to the table, and returns its entry, which lives as long as the process. Never fails. Any thread.
PHAROS_API RegisteredFunction* register_function(const Function& function);

}  // namespace pharos::detail
