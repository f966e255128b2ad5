#pragma once

#include <cstddef>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <pharos/actors/cell_handle.hpp>
#include <pharos/actors/codec_context.hpp>
#include <pharos/actors/exceptions.hpp>
#include <pharos/async/async.hpp>
#include <pharos/async/deadline.hpp>
#include <pharos/async/unique_function.hpp>
#include <pharos/base/export.hpp>
#include <pharos/base/result.hpp>
#include <pharos/wire/codec.hpp>
#include <pharos/wire/shared_span.hpp>

namespace pharos {

template <class T>
class Ref;

namespace detail {

template <class T, class F, class R>
decltype(auto) apply_to(F& function, const R& ref) {
  if constexpr (std::is_void_v<T>) {
    ref.get();
    return function();
  } else {
    return function(ref.get());
  }
}

/// The parts of a result that is a tuple or a pair. kCount is 0 for all other types.
template <class T>
struct PartsOf {
  static constexpr std::size_t kCount = 0;
};
template <class... Parts>
struct PartsOf<std::tuple<Parts...>> {
  static constexpr std::size_t kCount = sizeof...(Parts);

  static std::tuple<Ref<Parts>...> split(const CellHandle& whole) {
    return refs(whole.split(kCount, &find_ends), std::index_sequence_for<Parts...>{});
  }

 private:
  template <std::size_t... indexes>
  static std::tuple<Ref<Parts>...> refs(const std::vector<CellHandle>& cells, std::index_sequence<indexes...>) {
    return {Ref<Parts>{cells[indexes]}...};
  }
  static bool find_ends(const CellHandle& cell, const Encoded& whole, std::size_t* ends) {
    ResultDecoder decoder{cell, whole};
    ((static_cast<void>(Codec<Parts>::decode(decoder)), *ends++ = whole.bytes.size() - decoder.left()), ...);
    return decoder.done();
  }
};
template <class A, class B>
struct PartsOf<std::pair<A, B>> : PartsOf<std::tuple<A, B>> {};

/// The elements of a result in which they lie one after the other. kBytes is the size of one; 0 for all other types.
template <class T>
struct ElementsOf {
  static constexpr std::size_t kBytes = 0;
  using Slice = T;
};
template <>
struct ElementsOf<Bytes> {
  static constexpr std::size_t kBytes = 1;
  using Slice = Bytes;
};
template <class T>
struct ElementsOf<SharedSpan<T>> {
  static constexpr std::size_t kBytes = sizeof(T);
  using Slice = SharedSpan<T>;
};
template <class T, class Allocator>
requires kPlain<T>
struct ElementsOf<std::vector<T, Allocator>> : ElementsOf<SharedSpan<T>> {
};

/// Completes the cell with the value, once the Refs that the value holds are ready: at once, or later on the thread for
/// callbacks. A value that cannot be encoded becomes the cell's error.
template <class R>
void complete_with_value(const CellHandle& cell, R value) {
  ValueEncoder encoder{cell};
  if (encode_ready(value, *encoder)) return cell.set_value(*encoder);
  call_back_when_ready(pending_refs(*encoder), [cell, kept = std::make_unique<R>(std::move(value))] {
    try {
      complete_with_value<R>(cell, std::move(*kept));
    } catch (...) {
      cell.set_error(current_exception());
    }
  });
}

/// Completes the cell with what `make` returns or throws. Lets no exception out.
template <class R, class Make>
void complete_with(const CellHandle& cell, Make&& make) {
  try {
    if constexpr (std::is_void_v<R>) {
      make();
      cell.set_value({});
    } else {
      complete_with_value<R>(cell, make());
    }
  } catch (...) {
    cell.set_error(current_exception());
  }
}

}  // namespace detail

/// How Ref::cancel() ends a call.
struct CancelOptions {
  bool force = false;
};

/// A result of type T that is ready or will come: submit() and call() return it. Copies share the result. Any thread
/// may use it.
/// Failure: get() throws the error of the call. A Ref that was moved from has the error InvalidArgument, which its
/// other functions throw themselves; its ready() returns false. A large value that is lost, and that no task with
/// max_retries can make again, throws ObjectLost, or OwnerDied, which is an ObjectLost.
/// End: the result lives until the last Ref of it is gone. To drop every Ref does not cancel the call. A Ref may
/// outlive its Runtime; a result that had not come by then is the error RuntimeStopped, and so is a large value that is
/// not in memory.
/// A value may hold Refs. When it goes to another process, it waits until they are ready, and takes their results
/// along. A result that is an error travels too: get() of that inner Ref throws it.
template <class T>
class [[nodiscard]] Ref {
 public:
  using Value = T;

  explicit Ref(detail::CellHandle cell) : cell_{std::move(cell)} {}

  /// Waits for the result, and returns a copy of it. Throws the error if there is one: UserError, ActorDied, … Inside
  /// of a call that is cancelled it throws Cancelled, and cancels the call that it waits for. Bytes that are no T give
  /// an Exception with kCorrupt.
  T get() const { return get(Deadline::never()); }
  /// The same, but throws DeadlineExceeded if the result has not come by then; the call goes on. The deadline does not
  /// limit the time in which a large value is brought from disk or from another node.
  T get(Deadline deadline) const {
    auto result = try_get(deadline);
    if (!result) throw_error(std::move(result).error());
    if constexpr (!std::is_void_v<T>) return std::move(result).value();
  }
  /// The same as get(), but returns the error instead of throwing it.
  Result<T> try_get(Deadline deadline = Deadline::never()) const {
    auto bytes = cell_.wait(deadline);
    if (!bytes) return std::move(bytes).error();
    if constexpr (std::is_void_v<T>) {
      return {};
    } else {
      detail::ResultDecoder decoder{cell_, *bytes};
      T value = Codec<T>::decode(decoder);
      if (!decoder.done()) {
        return Error{ErrorCode::kCorrupt, "received a result that is not of its function's type"};
      }
      return value;
    }
  }
  /// The same as get() for Bytes, a SharedSpan or a vector of numbers, but copies no elements: they lie in the memory
  /// of the result, and the view keeps it alive.
  auto view(Deadline deadline = Deadline::never()) const {
    static_assert(detail::ElementsOf<T>::kBytes != 0,
                  "only Bytes, a SharedSpan and a std::vector of numbers have views");
    return Ref<typename detail::ElementsOf<T>::Slice>{cell_}.get(deadline);
  }
  /// Returns true once the result or its error has come. get() may still wait for a large value that is on disk or on
  /// another node.
  bool ready() const { return cell_.ready(); }

  /// Asks to cancel the call. A call that has not begun ends with Cancelled. In a call that runs, pharos::cancelled()
  /// becomes true, get() throws Cancelled, and the calls that it waits for are cancelled too. A function that ignores
  /// this ends as if nobody had asked. A Ref that this process makes from other results (then(), slice(), when_all(),
  /// …) ends with Cancelled at once. cancel() does not wait, and does nothing if the result is ready.
  void cancel() const { cell_.cancel(); }
  /// The same with `.force = true`, and a task that runs ends with Cancelled even if it ignores that: its worker's
  /// process is killed, after the tasks behind it were taken back. Tasks that it has submitted end with it. Calls of
  /// actors are only asked to end; Actor::kill() ends their actor.
  void cancel(CancelOptions options) const { cell_.cancel(options.force); }

  /// Calls `function` with the result, and returns a Ref of what `function` returns or throws. If the result is an
  /// error, `function` is not called, and the returned Ref has that error. `function` runs in this process, on the
  /// Runtime's thread for callbacks: one callback at a time, in the order in which the results come. A callback that
  /// waits for another result lets those behind it run. After the Runtime's end it runs at once, on the thread that
  /// calls then(). cancel() of the returned Ref does not cancel the call; if it comes first, `function` does not run.
  template <class F>
  auto then(F function) const {
    using R = decltype(detail::apply_to<T>(function, std::declval<Ref>()));
    detail::CellHandle made = cell_.offspring();
    cell_.call_back([source = *this, made, function = std::move(function)]() mutable {
      if (made.ready()) return;  // cancelled
      if (auto bytes = source.cell_.wait(Deadline::never()); !bytes) return made.set_error(std::move(bytes).error());
      detail::complete_with<std::remove_cvref_t<R>>(
          made, [&]() -> decltype(auto) { return detail::apply_to<T>(function, source); });
    });
    return Ref<std::remove_cvref_t<R>>{std::move(made)};
  }

  /// Returns a Ref for each part of a std::tuple or std::pair: `auto [loss, gradient] = ref.split();`. If the result is
  /// an error, each part has that error. The call is cancelled when all parts have been cancelled; cancel() of some
  /// parts does nothing.
  auto split() const {
    static_assert(detail::PartsOf<T>::kCount != 0, "only a std::tuple or std::pair has parts: return one of these");
    if constexpr (detail::PartsOf<T>::kCount != 0) return detail::PartsOf<T>::split(cell_);
  }

  /// Returns a Ref of `count` elements, from `begin` on, of Bytes, a SharedSpan or a vector of numbers. They lie in the
  /// memory of the whole result and keep it alive; nothing is copied. If the result has fewer elements, the returned
  /// Ref has the error InvalidArgument. cancel() of the returned Ref does not cancel the call.
  auto slice(std::size_t begin, std::size_t count) const {
    static_assert(detail::ElementsOf<T>::kBytes != 0,
                  "only Bytes, a SharedSpan and a std::vector of numbers have slices");
    return Ref<typename detail::ElementsOf<T>::Slice>{cell_.slice(begin, count, detail::ElementsOf<T>::kBytes)};
  }

  const detail::CellHandle& cell() const { return cell_; }

 private:
  detail::CellHandle cell_;
};

template <class T>
struct Codec<Ref<T>> {
  static void encode(const Ref<T>& ref, Encoder& to) { detail::encode_ref(ref.cell(), to); }
  static Ref<T> decode(Decoder& from) { return Ref<T>{detail::decode_ref(from)}; }
};

/// Makes `co_await ref` possible in a coroutine. It is like get(), but the actor runs other calls while it waits.
/// Throws Cancelled if the coroutine is cancelled first.
template <class T>
Async<T> as_async(Ref<T> ref) {
  const auto kept = co_await detail::until_ready(ref.cell());
  co_return ref.get();
}

}  // namespace pharos
