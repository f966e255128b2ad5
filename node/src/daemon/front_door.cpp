#include "daemon/front_door.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <span>
#include <utility>

#include <pharos/async/deadline.hpp>
#include <pharos/async/sleep.hpp>
#include <pharos/base/log.hpp>
#include <pharos/net/blocking_io.hpp>
#include <pharos/net/socket_link.hpp>

#include "daemon/watch.hpp"

namespace pharos::node {
namespace {

constexpr auto kGreetTime = std::chrono::seconds{5};
constexpr auto kAcceptAgainTime = std::chrono::milliseconds{100};

}  // namespace

/// Counts one connection that is in its handshake, for as long as this object lives.
class FrontDoor::Unproven {
 public:
  explicit Unproven(std::size_t& count) : count_{count} { ++count_; }
  Unproven(Unproven&&) = delete;
  ~Unproven() { --count_; }

 private:
  std::size_t& count_;
};

FrontDoor::FrontDoor(net::Reactor& reactor, net::Identity self, const net::TokenRing& tokens, Guests guests)
    : reactor_{reactor}, self_{self}, tokens_{tokens}, guests_{std::move(guests)}, background_{reactor} {}

FrontDoor::~FrontDoor() {
  for (const Fd& socket : listening_) reactor_.unwatch(socket.get());
}

Result<net::Address> FrontDoor::listen_at(const std::string& address) {
  PHAROS_TRY(net::Address bound, net::parse_address(address));
  PHAROS_TRY(Fd socket, net::listen_at(bound));
  const bool is_unix = bound.unix_socket;
  if (!is_unix) {
    PHAROS_TRY(bound, net::bound_address(socket.get()));
    listening_at_ = bound.to_string();
  }
  const int number = socket.get();
  listening_.push_back(std::move(socket));
  reactor_.watch(number, EPOLLIN, std::make_shared<Watch>([this, number, is_unix] { accept_all(number, is_unix); }));
  return bound;
}

void FrontDoor::accept_all(int listening, bool is_unix) {
  for (;;) {
    Fd connection{::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!connection) {
      if (errno == ECONNABORTED || errno == EINTR) continue;
      // The reactor tells only of connections that are new, so those that wait now would wait for the next one.
      if (errno == EAGAIN || !accept_again_.insert(listening).second) return;
      log(LogLevel::kWarn, "cannot accept a connection; trying again", {kv("errno", errno)});
      background_.spawn(accept_later(listening, is_unix));
      return;
    }
    std::size_t& unproven = is_unix ? unproven_here_ : unproven_far_;
    if (unproven >= kUnprovenMax) continue;  // this closes the connection
    auto counted = std::make_unique<Unproven>(unproven);
    if (!is_unix) {
      background_.spawn(let_node_in(std::move(connection), std::move(counted)));
    } else if (net::check_peer_is_this_user(connection.get())) {
      background_.spawn(let_driver_in(std::move(connection), std::move(counted)));
    }
  }
}

// The process has no descriptors left, or the machine no memory.
async::Async<void> FrontDoor::accept_later(int listening, bool is_unix) {
  const auto slept = co_await async::sleep(kAcceptAgainTime);
  accept_again_.erase(listening);
  if (slept) accept_all(listening, is_unix);
}

async::Async<Result<void>> FrontDoor::greet(int socket, net::Role expected) {
  const auto deadline = async::Deadline::after(kGreetTime, reactor_.now());
  net::Acceptor::KeyFor key_for = [this, expected](net::Identity peer, std::uint64_t name) {
    return peer.role == expected ? tokens_.find(name, net::seconds_now()) : std::nullopt;
  };
  const auto identity = co_await net::accept(&reactor_, socket, self_, std::move(key_for), deadline);
  if (identity) co_return {};
  log(LogLevel::kInfo, "refused a connection", {kv("error", identity.error())});
  co_return identity.error();
}

async::Async<void> FrontDoor::let_driver_in(Fd socket, std::unique_ptr<Unproven> counted) {
  const auto greeted = co_await greet(socket.get(), net::Role::kDriver);
  counted.reset();
  if (greeted) guests_.driver(std::move(socket));
}

async::Async<void> FrontDoor::let_node_in(Fd socket, std::unique_ptr<Unproven> counted) {
  const auto far = net::set_up_far_socket(socket.get());
  const auto greeted = co_await greet(socket.get(), net::Role::kNode);
  counted.reset();
  if (!far || !greeted) co_return;
  Introduction introduction;
  const auto deadline = async::Deadline::after(kGreetTime, reactor_.now());
  const auto received = co_await net::receive_exactly(&reactor_, socket.get(),
                                                      std::as_writable_bytes(std::span{&introduction, 1}), deadline);
  if (!received) co_return;
  if (introduction.leads_to_leased_worker() && !net::make_patient(socket.get())) co_return;
  guests_.node(introduction, std::move(socket));
}

}  // namespace pharos::node
