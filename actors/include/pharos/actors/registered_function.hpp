#pragma once

#include <cstdint>
#include <span>
#include <typeinfo>

#include <pharos/async/async.hpp>
#include <pharos/base/export.hpp>
#include <pharos/wire/decoder.hpp>
#include <pharos/wire/encoder.hpp>

/// The program's table of what can be called by name, filled by static initialisers, so that driver and workers, which
/// are the same executable, agree on it.
namespace pharos::detail {

enum class FunctionKind : std::uint8_t { kTask, kMethod, kConstructor, kExceptionTypes };

/// A type of exceptions that travel as what they are.
struct ThrownType {
  const std::type_info* type = nullptr;
  /// In a catch block: writes what is being handled, unless it is of another type.
  bool (*encode)(Encoder& to) = nullptr;
  /// Throws it. Returns if these bytes are none.
  void (*rethrow)(Decoder& from) = nullptr;
};

/// What a worker runs. Only the members of its kind are set.
struct Function {
  const std::type_info* tag = nullptr;  ///< of the type that names it
  FunctionKind kind{};
  void (*call)(void* instance, Decoder& arguments, Encoder& result) = nullptr;
  /// Instead of `call`, of a method that is a coroutine. The arguments are there until its first wait, the result until
  /// its end.
  async::Async<void> (*begin)(void* instance, Decoder* arguments, Encoder* result) = nullptr;
  void* (*construct)(Decoder& arguments) = nullptr;
  void (*destroy)(void* instance) = nullptr;
  /// In a catch block: whether what is being handled is of one of the types.
  bool (*handles)() = nullptr;
  std::span<const ThrownType> throws{};  ///< what it declares

  /// Mangled; the same from every compiler of the Itanium ABI.
  const char* name() const { return tag->name(); }
};

/// A Function in the table. Its index is known once the table is sorted, just before main; a library that is loaded
/// later has none, because workers do not load it.
struct RegisteredFunction {
  Function function;
  std::uint32_t index = kNoIndex;
  static constexpr std::uint32_t kNoIndex = ~std::uint32_t{0};
};

/// Never fails.
PHAROS_API RegisteredFunction* register_function(const Function& function);

}  // namespace pharos::detail
