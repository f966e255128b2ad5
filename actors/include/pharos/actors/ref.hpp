#pragma once

#include <span>
#include <type_traits>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/base/export.hpp>
#include <pharos/base/result.hpp>
#include <pharos/wire/codec.hpp>

namespace pharos {

namespace detail {

class ResultCell;

/// A share in a result that is there or will be.
class PHAROS_API CellHandle {
 public:
  CellHandle() = default;
  explicit CellHandle(ResultCell* cell) : cell_{cell} {}  // takes over one reference
  CellHandle(const CellHandle& other);
  CellHandle(CellHandle&& other) noexcept : cell_{std::exchange(other.cell_, nullptr)} {}
  CellHandle& operator=(CellHandle other) noexcept {
    std::swap(cell_, other.cell_);
    return *this;
  }
  ~CellHandle() {
    if (cell_ != nullptr) release();
  }

  explicit operator bool() const { return cell_ != nullptr; }
  ResultCell& operator*() const { return *cell_; }
  ResultCell* operator->() const { return cell_; }
  ResultCell* detach() { return std::exchange(cell_, nullptr); }

  bool ready() const;
  /// The encoded result, once it is there.
  Result<std::span<const std::byte>> wait(Deadline deadline) const;

 private:
  void release();
  ResultCell* cell_ = nullptr;
};

}  // namespace detail

/// A result of type T that is there or will be: what submit() and call() return. Copies share it; any thread.
/// A Ref may outlive its Runtime: what had not come by then is a RuntimeStopped error.
template <class T>
class [[nodiscard]] Ref {
 public:
  explicit Ref(detail::CellHandle cell) : cell_{std::move(cell)} {}

  /// Waits for it. Throws what went wrong: UserError, ActorDied, …
  T get() const { return get(Deadline::never()); }
  /// The same, but no longer than until then (DeadlineExceeded); the call goes on.
  T get(Deadline deadline) const {
    auto result = try_get(deadline);
    if (!result) throw_error(std::move(result).error());
    if constexpr (!std::is_void_v<T>) return std::move(result).value();
  }
  /// The same without exceptions.
  Result<T> try_get(Deadline deadline = Deadline::never()) const {
    auto bytes = cell_.wait(deadline);
    if (!bytes) return std::move(bytes).error();
    if constexpr (std::is_void_v<T>) {
      return {};
    } else {
      Decoder decoder{*bytes};
      T value = Codec<T>::decode(decoder);
      if (decoder.failed() || decoder.left() != 0) {
        return Error{ErrorCode::kCorrupt, "received a result that is none of its function's type"};
      }
      return value;
    }
  }
  /// True once get() would not wait.
  bool ready() const { return cell_.ready(); }

 private:
  detail::CellHandle cell_;
};

}  // namespace pharos
