#pragma once

#include <exception>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

#include <pharos/actors/exceptions.hpp>
#include <pharos/actors/signature.hpp>
#include <pharos/async/async.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/async/deadline.hpp>

namespace pharos {

/// What a method of an actor returns that answers later, and from any thread:
///
///   Reply<int> Sensor::read() {
///     const Reply<int> reply;
///     device_.read_async([reply](int value) { reply.set(value); });
///     return reply;
///   }
///
/// The caller gets a Ref<int>. The actor runs other calls until the reply is set; a call that is cancelled ends without
/// it. Copies stand for the same reply. Any thread may use them.
/// Failure: if the last copy goes without an answer, the caller's get() throws UserError.
template <class T>
class Reply {
 public:
  /// The type of the value; a placeholder for Reply<void>.
  using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

  /// The first set() or fail() counts. Later ones return false and do nothing.
  bool set(Value value) const requires(!std::is_void_v<T>) {
    return end(Outcome{std::in_place_index<0>, std::move(value)});
  }
  bool set() const requires std::is_void_v<T> { return end(Outcome{}); }
  /// The call throws this exception, as if the method had thrown it.
  template <class Thrown>
  bool fail(Thrown thrown) const {
    return end(Outcome{std::in_place_index<1>, std::make_exception_ptr(std::move(thrown))});
  }
  bool fail(std::exception_ptr thrown) const { return end(Outcome{std::in_place_index<1>, std::move(thrown)}); }

  /// Lets the call wait for the answer. This copy of the reply ends here, so that only those of the actor are left.
  friend Async<T> as_async(Reply reply) {
    auto answered = std::exchange(reply.share_, nullptr)->answered;
    auto outcome = co_await answered.wait(Deadline::never());
    if (!outcome) throw_error(std::move(outcome).error());
    if (outcome->index() == 1) std::rethrow_exception(std::get<1>(*outcome));
    if constexpr (!std::is_void_v<T>) co_return std::get<0>(*std::move(outcome));
  }

 private:
  using Outcome = std::variant<Value, std::exception_ptr>;
  struct Share {
    async::Completion<Outcome> answered;
    Share() = default;
    Share(Share&&) = delete;
    ~Share() {
      answered.fail(Error{ErrorCode::kUserError, "the actor has let go of this call's reply without an answer"});
    }
  };

  bool end(Outcome outcome) const { return share_->answered.complete(std::move(outcome)); }

  std::shared_ptr<Share> share_ = std::make_shared<Share>();
};

namespace detail {

template <class T>
struct Brought<Reply<T>> {
  using Type = T;
  static constexpr bool kLater = true;
};

}  // namespace detail
}  // namespace pharos
