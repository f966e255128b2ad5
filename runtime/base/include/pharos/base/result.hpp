#pragma once

#include <concepts>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include <pharos/base/check.hpp>
#include <pharos/base/error.hpp>

namespace pharos {

/// Either a T, or the Error that explains why there is no T. The compiler warns when a caller ignores a Result. Reading
/// the value of a failed Result, or the error of a good one, aborts the process.
template <class T>
class [[nodiscard]] Result {
 public:
  using Value = T;

  template <class U = T>
  requires std::constructible_from<T, U> &&
      (!std::same_as<std::remove_cvref_t<U>, Result>)&&(!std::same_as<std::remove_cvref_t<U>, Error>)Result(U&& value)
      : state_{std::in_place_index<0>, std::forward<U>(value)} {}
  Result(Error error) : state_{std::in_place_index<1>, std::move(error)} {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    PHAROS_CHECK(ok(), std::get<1>(state_));
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    PHAROS_CHECK(ok(), std::get<1>(state_));
    return *std::get_if<0>(&state_);
  }
  T value() && {
    PHAROS_CHECK(ok(), std::get<1>(state_));
    return std::move(*std::get_if<0>(&state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    PHAROS_CHECK(!ok());
    return *std::get_if<1>(&state_);
  }
  Error error() && {
    PHAROS_CHECK(!ok());
    return std::move(*std::get_if<1>(&state_));
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using Value = void;

  Result() = default;
  Result(Error error) : error_{std::move(error)} {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  void value() const { PHAROS_CHECK(ok(), *error_); }
  const Error& error() const& {
    PHAROS_CHECK(!ok());
    return *error_;
  }
  Error error() && {
    PHAROS_CHECK(!ok());
    return std::move(*error_);
  }

 private:
  std::optional<Error> error_;
};

}  // namespace pharos

#define PHAROS_CONCAT_INNER(a, b) a##b
#define PHAROS_CONCAT(a, b) PHAROS_CONCAT_INNER(a, b)

#define PHAROS_TRY_INTO(result, declaration, expression, leave) \
  auto result = (expression);                                   \
  if (!result.ok()) leave std::move(result).error();            \
  declaration = std::move(result).value()
#define PHAROS_TRY_ONLY(result, expression, leave) \
  if (auto result = (expression); !result.ok()) leave std::move(result).error()

/// `PHAROS_TRY(auto x, f());` declares x, or returns f's error. `PHAROS_TRY_VOID(g());` for Result<void>.
/// In a coroutine: PHAROS_CO_TRY, PHAROS_CO_TRY_VOID.
#define PHAROS_TRY(declaration, expression) \
  PHAROS_TRY_INTO(PHAROS_CONCAT(pharos_result_, __LINE__), declaration, expression, return )
#define PHAROS_CO_TRY(declaration, expression) \
  PHAROS_TRY_INTO(PHAROS_CONCAT(pharos_result_, __LINE__), declaration, expression, co_return )
#define PHAROS_TRY_VOID(expression) PHAROS_TRY_ONLY(PHAROS_CONCAT(pharos_result_, __LINE__), expression, return )
#define PHAROS_CO_TRY_VOID(expression) PHAROS_TRY_ONLY(PHAROS_CONCAT(pharos_result_, __LINE__), expression, co_return )
