#include "store/transfers.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <optional>
#include <utility>

#include <pharos/object_store/transfer.hpp>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;
using object_store::PullRequest;

constexpr std::size_t kReceivingThreads = 4;
constexpr std::size_t kSendingThreads = 16;
constexpr std::size_t kWaitingMax = 256;
constexpr timeval kSilenceMax{.tv_sec = 10, .tv_usec = 0};  // time in which no byte moves
constexpr auto kAnswerTime = 60s;                           // an object may have to come from a disk

}  // namespace

class Transfers::SocketStream final : public object_store::Stream {
 public:
  SocketStream(Transfers& transfers, Fd socket) : transfers_{transfers}, socket_{std::move(socket)} {
    ::fcntl(socket_.get(), F_SETFL, 0);
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &kSilenceMax, sizeof kSilenceMax);
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &kSilenceMax, sizeof kSilenceMax);
    const std::lock_guard lock{transfers_.mutex_};
    transfers_.sockets_.insert(socket_.get());
    if (transfers_.ending_) ::shutdown(socket_.get(), SHUT_RDWR);
  }
  SocketStream(SocketStream&&) = delete;
  ~SocketStream() override {
    const std::lock_guard lock{transfers_.mutex_};
    transfers_.sockets_.erase(socket_.get());
    socket_.reset();
  }

  Result<void> send(std::span<const std::byte> head, std::span<const std::byte> body) override {
    PHAROS_TRY_VOID(send_all(head, body.empty() ? 0 : MSG_MORE));
    return send_all(body, 0);
  }
  Result<void> receive(std::span<std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t received = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_WAITALL);
      if (received < 0 && errno == EINTR) continue;
      if (received <= 0) return ended(received == 0 ? 0 : errno);
      bytes = bytes.subspan(static_cast<std::size_t>(received));
    }
    return {};
  }

 private:
  Result<void> send_all(std::span<const std::byte> bytes, int flags) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), flags | MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return ended(errno);
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
    return {};
  }
  static Error ended(int error) {
    if (error == 0) return {ErrorCode::kUnavailable, "the other node has closed the connection"};
    if (error == EAGAIN) return {ErrorCode::kUnavailable, "nothing has come from the other node for 10 seconds"};
    return {ErrorCode::kUnavailable, Error::from_errno("moving bytes between nodes", error).message()};
  }

  Transfers& transfers_;
  Fd socket_;
};

Transfers::Transfers(net::Reactor& reactor)
    : reactor_{reactor}, receiving_{kReceivingThreads, kWaitingMax}, sending_{kSendingThreads, kWaitingMax} {}

Transfers::~Transfers() {
  const std::lock_guard lock{mutex_};
  ending_ = true;
  for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
}

// ---- Receiving

void Transfers::receive(Fd socket, const PullRequest& request, std::shared_ptr<object_store::Chunks> into,
                        Host::Pulled done) {
  auto finish = std::make_shared<Host::Pulled>(std::move(done));
  auto submitted = receiving_.submit(
      [this, socket = std::move(socket), request, into, finish](async::BlockingPool::Turn turn) mutable {
        if (turn == async::BlockingPool::Turn::kRefused) return;
        auto pulled = [&]() -> Result<std::optional<NodeId>> {
          SocketStream stream{*this, std::move(socket)};
          PHAROS_TRY(const auto instead, object_store::ask_for(stream, request, into->size()));
          if (!instead) PHAROS_TRY_VOID(object_store::receive_chunks(stream, *into));
          return instead;
        }();
        reactor_.post([finish, pulled = std::move(pulled)]() mutable { (*finish)(std::move(pulled)); });
      });
  if (!submitted) reactor_.post([finish, why = std::move(submitted).error()]() mutable { (*finish)(std::move(why)); });
}

// ---- Sending

void Transfers::send(Fd socket, Host::MakePullAnswer make) {
  const auto shared = std::make_shared<Host::MakePullAnswer>(std::move(make));
  // If the pool does not accept the job the connection closes, and the other node tries again.
  static_cast<void>(sending_.submit([this, socket = std::move(socket), shared](async::BlockingPool::Turn turn) mutable {
    if (turn == async::BlockingPool::Turn::kRefused) return;
    SocketStream stream{*this, std::move(socket)};
    send_on_thread(stream, shared);
  }));
}

void Transfers::send_on_thread(SocketStream& stream, const std::shared_ptr<Host::MakePullAnswer>& make) {
  const auto request = object_store::receive_pull_request(stream);
  if (!request) return;
  auto answer = ask(*request, make);
  if (!answer) return object_store::refuse(stream, answer.error());
  if (answer->instead) {
    object_store::send_on(stream, answer->instead);
  } else {
    // The receiver notices by itself if not all has come.
    static_cast<void>(object_store::send_chunks(stream, *answer->chunks));
    answer->chunks.reset();
  }
  if (answer->done) reactor_.post(std::move(answer->done));
}

// ---- Programs

void Transfers::receive_program(Fd socket, std::shared_ptr<ArrivingProgram> into, std::string folder,
                                async::UniqueFunction<void(Result<void>)> done) {
  const auto finish = std::make_shared<async::UniqueFunction<void(Result<void>)>>(std::move(done));
  auto submitted = receiving_.submit([this, socket = std::move(socket), into = std::move(into),
                                      folder = std::move(folder), finish](async::BlockingPool::Turn turn) mutable {
    if (turn == async::BlockingPool::Turn::kRefused) return;
    auto received = [&] {
      SocketStream stream{*this, std::move(socket)};
      return into->receive(stream, folder);
    }();
    reactor_.post([finish, received = std::move(received)]() mutable { (*finish)(std::move(received)); });
  });
  if (!submitted) reactor_.post([finish, why = std::move(submitted).error()]() mutable { (*finish)(std::move(why)); });
}

void Transfers::send_program(Fd socket, Fd executable, wire::RegisterJob program, std::string folder) {
  static_cast<void>(sending_.submit([this, socket = std::move(socket), executable = std::move(executable),
                                     program = std::move(program),
                                     folder = std::move(folder)](async::BlockingPool::Turn turn) mutable {
    if (turn == async::BlockingPool::Turn::kRefused) return;
    SocketStream stream{*this, std::move(socket)};
    node::send_program(stream, executable, program, folder);
  }));
}

// ---- Offers

/// A question to the node's strand, while the thread of the pool waits for the answer.
struct Transfers::Asked {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Result<Host::PullAnswer>> answer;
  bool given_up = false;
};

Result<Host::PullAnswer> Transfers::ask(const PullRequest& request, const std::shared_ptr<Host::MakePullAnswer>& make) {
  const auto asked = std::make_shared<Asked>();
  reactor_.post([asked, request, make] {
    (*make)(request, [asked](Result<Host::PullAnswer> answer) {
      const std::lock_guard lock{asked->mutex};
      if (asked->given_up && answer && answer->done) answer->done();
      asked->answer.emplace(std::move(answer));
      asked->changed.notify_one();
    });
  });
  std::unique_lock lock{asked->mutex};
  const auto until = std::chrono::steady_clock::now() + kAnswerTime;
  while (!asked->answer && std::chrono::steady_clock::now() < until) {
    asked->changed.wait_for(lock, 100ms);
    const std::lock_guard ends{mutex_};
    if (ending_) break;
  }
  if (!asked->answer) {
    asked->given_up = true;
    return Error{ErrorCode::kUnavailable, "the object was not brought back to memory in time"};
  }
  return *std::move(asked->answer);
}

}  // namespace pharos::node
