#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <pharos/base/check.hpp>

namespace pharos::async {

template <class Signature>
class UniqueFunction;

/// A callable that can be moved but not copied, so that its captures can be move-only: a coroutine, a file, a
/// unique_ptr. Captures of up to kInlineBytes are stored inside it without an allocation, unless their move may throw.
/// Belongs to one thread at a time. Calling an empty one, or one that was moved from, aborts the process. An exception
/// of the callable passes to the caller.
template <class R, class... Args>
class UniqueFunction<R(Args...)> {
 public:
  static constexpr std::size_t kInlineBytes = 48;

  UniqueFunction() = default;

  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, UniqueFunction> && std::is_invocable_r_v<R, std::decay_t<F>&, Args...>)
      UniqueFunction(F&& function) {
    using Function = std::decay_t<F>;
    if constexpr (fits_inline<Function>()) {
      ::new (static_cast<void*>(storage_)) Function(std::forward<F>(function));
    } else {
      ::new (static_cast<void*>(storage_)) Function*(new Function(std::forward<F>(function)));
    }
    operations_ = &kOperations<Function>;
  }

  UniqueFunction(UniqueFunction&& other) noexcept { take(other); }
  UniqueFunction& operator=(UniqueFunction&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~UniqueFunction() { reset(); }

  explicit operator bool() const { return operations_ != nullptr; }

  R operator()(Args... args) {
    PHAROS_CHECK(operations_ != nullptr);
    return operations_->call(storage_, std::forward<Args>(args)...);
  }

 private:
  struct Operations {
    R (*call)(std::byte* storage, Args&&... args);
    void (*move)(std::byte* from, std::byte* to) noexcept;
    void (*destroy)(std::byte* storage) noexcept;
  };

  template <class F>
  static constexpr bool fits_inline() {
    return sizeof(F) <= kInlineBytes && alignof(F) <= alignof(std::max_align_t) &&
           std::is_nothrow_move_constructible_v<F>;
  }

  template <class F>
  static F& stored(std::byte* storage) {
    if constexpr (fits_inline<F>()) {
      return *std::launder(reinterpret_cast<F*>(storage));
    } else {
      return **std::launder(reinterpret_cast<F**>(storage));
    }
  }

  template <class F>
  static constexpr Operations kOperations{
      [](std::byte* storage, Args&&... args) -> R {
        if constexpr (std::is_void_v<R>) {
          std::invoke(stored<F>(storage), std::forward<Args>(args)...);
        } else {
          return std::invoke(stored<F>(storage), std::forward<Args>(args)...);
        }
      },
      [](std::byte* from, std::byte* to) noexcept {
        if constexpr (fits_inline<F>()) {
          ::new (static_cast<void*>(to)) F(std::move(stored<F>(from)));
          std::destroy_at(&stored<F>(from));
        } else {
          ::new (static_cast<void*>(to)) F*(&stored<F>(from));
        }
      },
      [](std::byte* storage) noexcept {
        if constexpr (fits_inline<F>()) {
          std::destroy_at(&stored<F>(storage));
        } else {
          delete &stored<F>(storage);
        }
      },
  };

  void take(UniqueFunction& other) noexcept {
    operations_ = std::exchange(other.operations_, nullptr);
    if (operations_ != nullptr) operations_->move(other.storage_, storage_);
  }
  void reset() noexcept {
    if (auto* operations = std::exchange(operations_, nullptr)) operations->destroy(storage_);
  }

  alignas(std::max_align_t) std::byte storage_[kInlineBytes];
  const Operations* operations_ = nullptr;
};

/// The work that an executor runs.
using Callback = UniqueFunction<void()>;

}  // namespace pharos::async
