#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <pharos/async/executor.hpp>
#include <pharos/async/outermost.hpp>

#include "results/large_values.hpp"
#include "worker/guarded.hpp"
#include "worker/running.hpp"
#include "worker/strand.hpp"

namespace pharos::actors {

/// A call of a method that is a coroutine, from its beginning to its end. It is an executor of its own, so that work
/// that is posted to it takes its turn among the calls and runs as this call. Owned by the code that runs it, by the
/// notes of its origin while it is suspended, and by the work and the timers that are posted to it. What the coroutine
/// throws is error(). End: it must have ended before it is destroyed: a coroutine that waits aborts the process.
/// `workplace` must outlive it. Used on the strand, except the functions of Executor and cancel_wait().
class CoroutineCall final : public async::Executor,
                            public SuspendedCall,
                            public std::enable_shared_from_this<CoroutineCall> {
 public:
  CoroutineCall(Workplace& workplace, std::shared_ptr<CallOrigin> origin, const wire::FrameHeader& header,
                const detail::Function& function)
      : header_{header},
        workplace_{workplace},
        origin_{std::move(origin)},
        function_{function},
        retries_{origin_->retries_of(header.number)},
        running_(workplace, function, origin_.get(), header.number, TraceId{header.trace}, false, header.attempt),
        room_{workplace.caller()->large_values(), CallerId{header.caller}} {
    room_.for_result_of(function_);
    result_.set_large_room(&room_);
    result_.set_context(&carried_);
  }

  /// Runs the coroutine to its first wait or its end.
  void begin(std::span<const std::byte> arguments, std::shared_ptr<const void> buffer) {
    if (retries_.types != nullptr) arguments_.assign(arguments.begin(), arguments.end());
    const UserCode inside{running_};
    begin_body(arguments, std::move(buffer));
    workplace_.end_if_child();
  }

  bool ended() const { return ended_; }
  const wire::FrameHeader& header() const { return header_; }
  const std::optional<Error>& error() const { return error_; }
  Encoder& result() { return result_; }

  void cancel_wait() override {
    cancelled_.store(true);
    post([this] { body_->cancel_wait(); });
  }

  void post(async::Callback work) override {
    workplace_.executor().push(std::make_shared<Slice>(shared_from_this(), std::move(work)));
  }
  TimePoint now() const override { return workplace_.executor().now(); }
  async::TimerId run_at(TimePoint when, async::Callback work) override {
    return workplace_.platform().executor().run_at(
        when, [self = shared_from_this(), work = std::move(work)]() mutable { self->post(std::move(work)); });
  }
  bool cancel(async::TimerId timer) override { return workplace_.platform().executor().cancel(timer); }

 private:
  class Body final : public async::detail::Outermost {
   public:
    Body(CoroutineCall& call, async::Async<void> coroutine)
        : Outermost{call, call.cancelled_, std::move(coroutine)}, call_{call} {}

   private:
    void ended() override {
      bool again = false;
      call_.error_ = guarded(
          call_.function_, [this] { take(); }, call_.retries_.types, &again);
      if (again && call_.running_.may_run_again(call_.retries_)) {
        call_.post([call = &call_] { call->begin_body(call->arguments_, nullptr); });
      } else {
        call_.ended_ = true;
      }
    }
    CoroutineCall& call_;
  };

  // Called while this thread runs as this call (UserCode).
  void begin_body(std::span<const std::byte> bytes, std::shared_ptr<const void> buffer) {
    std::optional<Arrived> arrived;
    error_ = guarded(function_, [&] {
      arrived.emplace(workplace_.caller()->large_values(), header_.flags, bytes, std::move(buffer));
    });
    if (error_) {
      ended_ = true;
      return;
    }
    Decoder arguments = arrived->decoder();
    result_.clear();
    body_.emplace(*this, function_.begin(workplace_.instance().object, &arguments, &result_));
    body_->start();
    body_->run();
  }

  /// A piece of the coroutine's execution, from one wait to the next.
  class Slice final : public Strand::Runner {
   public:
    Slice(std::shared_ptr<CoroutineCall> call, async::Callback work) : call_{std::move(call)}, work_{std::move(work)} {}

    void run(net::FrameBatch, bool more_follow) override {
      {
        const UserCode inside{call_->running_};
        std::exchange(work_, {})();
      }
      call_->workplace_.end_if_child();
      if (!call_->ended_ || std::exchange(call_->concluded_, true)) return;
      call_->origin_->conclude(call_->header_, call_->error_, call_->result_, more_follow);
      call_->workplace_.strand().note_ended();
    }
    void give_back(net::FrameBatch) override {}
    void on_drained() override { call_->origin_->write_replies(); }

   private:
    const std::shared_ptr<CoroutineCall> call_;
    async::Callback work_;
  };

  const wire::FrameHeader header_;
  Workplace& workplace_;
  const std::shared_ptr<CallOrigin> origin_;
  const detail::Function& function_;
  const Retries retries_;
  std::vector<std::byte> arguments_;  // kept if the call may be run again; else empty
  Running running_;
  RoomIn room_;
  CodecContext carried_;
  Encoder result_;
  std::atomic<bool> cancelled_ = false;
  std::optional<Error> error_;
  bool ended_ = false;
  bool concluded_ = false;
  std::optional<Body> body_;  // the last member: the coroutine's frames use the members above
};

}  // namespace pharos::actors
