#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <cstring>
#include <memory>

#include <pharos/net/address.hpp>

#include "ready.hpp"

namespace pharos::net {
namespace {

// The path in sockaddr_un has at most 108 bytes, but the paths of folders can be longer. The folder is therefore
// opened, and the socket is named through the folder's descriptor.
struct UnixName {
  Fd folder;
  sockaddr_un name{};
};

Result<UnixName> unix_name(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
  UnixName result;
  result.folder = Fd{::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  if (!result.folder) return Error::from_errno("opening the folder " + folder, errno);
  const std::string name = "/proc/self/fd/" + std::to_string(result.folder.get()) + "/" + file;
  if (name.size() >= sizeof result.name.sun_path) {
    return Error{ErrorCode::kInvalidArgument, "the socket's file name " + file + " is too long"};
  }
  result.name.sun_family = AF_UNIX;
  std::memcpy(result.name.sun_path, name.c_str(), name.size() + 1);
  return result;
}

Result<sockaddr_in> inet_name(const Address& address) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(address.port);
  if (::inet_pton(AF_INET, address.place.c_str(), &name.sin_addr) != 1) {
    return Error{ErrorCode::kInvalidArgument, "\"" + address.place + "\" is not an IPv4 address"};
  }
  return name;
}

std::string text_of(const sockaddr* of) {
  sockaddr_in name{};
  std::memcpy(&name, of, sizeof name);
  char text[INET_ADDRSTRLEN]{};
  ::inet_ntop(AF_INET, &name.sin_addr, text, sizeof text);
  return text;
}

/// The host's first IPv4 address. May ask the network, and then blocks until the answer comes.
Result<std::string> look_up(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  // Digits and dots are no name: getaddrinfo() would accept the old short form of an address, such as "10.1".
  const bool is_name = host.find_first_not_of("0123456789.") != std::string::npos;
  const int failed = !is_name ? EAI_NONAME : ::getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  if (failed != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "\"" + host + "\" is neither an IPv4 address nor a known host name: " + ::gai_strerror(failed),
                 "Write HOST:PORT, as 10.0.0.1:7400."};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all{found, &::freeaddrinfo};
  return text_of(found->ai_addr);
}

Result<Fd> new_socket(int family) {
  Fd socket{::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!socket) return Error::from_errno("making a socket", errno);
  return socket;
}

Error cannot_connect(const std::string& where, int why) {
  return Error::from_errno("connecting to " + where, why, "Is a cluster running there?");
}

Result<void> wait_until_connected(int socket, async::Deadline deadline, const std::string& where) {
  for (;;) {
    const Duration left = deadline.left(std::chrono::steady_clock::now());
    if (left == Duration::zero()) {
      return Error{ErrorCode::kDeadlineExceeded, "connecting to " + where + " took too long"};
    }
    pollfd waited{.fd = socket, .events = POLLOUT, .revents = 0};
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(std::min<Duration>(left, std::chrono::hours{1}));
    const int ready = ::poll(&waited, 1, static_cast<int>(ms.count()));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return cannot_connect(where, errno);
  }
}

struct Connecting {
  Fd socket;
  bool done = false;
};

Result<Connecting> begin_connecting(const Address& address) {
  PHAROS_TRY(Fd socket, new_socket(address.unix_socket ? AF_UNIX : AF_INET));
  int connected = 0;
  if (address.unix_socket) {
    PHAROS_TRY(const UnixName name, unix_name(address.place));
    connected = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name.name), sizeof name.name);
  } else {
    const int one = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    PHAROS_TRY(const sockaddr_in name, inet_name(address));
    connected = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name);
  }
  if (connected != 0 && errno != EINPROGRESS) return cannot_connect(address.to_string(), errno);
  return Connecting{std::move(socket), connected == 0};
}

Result<void> finish_connecting(int socket, const Address& address) {
  int why = 0;
  socklen_t size = sizeof why;
  ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &why, &size);
  if (why != 0) return cannot_connect(address.to_string(), why);
  return address.unix_socket ? check_peer_is_this_user(socket) : Result<void>{};
}

}  // namespace

std::string Address::to_string() const {
  return unix_socket ? "unix:" + place : place + ":" + std::to_string(port);
}

bool Address::loopback() const {
  return unix_socket || place.starts_with("127.");
}

std::string own_place() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) == 0) {
    const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all{first, &::freeifaddrs};
    for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
      const bool is_outer = (each->ifa_flags & IFF_UP) != 0 && (each->ifa_flags & IFF_LOOPBACK) == 0;
      if (is_outer && each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET) return text_of(each->ifa_addr);
    }
  }
  char name[HOST_NAME_MAX + 1]{};
  ::gethostname(name, sizeof name - 1);
  return name;
}

Result<Address> parse_address(std::string_view text) {
  if (text.starts_with("unix:")) {
    if (text.size() == 5) return Error{ErrorCode::kInvalidArgument, "\"unix:\" names no path"};
    return Address{.unix_socket = true, .place = std::string{text.substr(5)}};
  }
  const std::size_t colon = text.rfind(':');
  Address address;
  const std::string_view digits = colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), address.port);
  if (digits.empty() || parsed.ec != std::errc{} || parsed.ptr != digits.data() + digits.size()) {
    return Error{ErrorCode::kInvalidArgument, "\"" + std::string{text} + "\" is no address",
                 "Write HOST:PORT or unix:PATH."};
  }
  address.place = text.substr(0, colon) == "localhost" ? "127.0.0.1" : std::string{text.substr(0, colon)};
  if (!inet_name(address)) {
    PHAROS_TRY(address.place, look_up(address.place));
  }
  return address;
}

Result<Fd> listen_at(const Address& address) {
  const std::string where = address.to_string();
  PHAROS_TRY(Fd socket, new_socket(address.unix_socket ? AF_UNIX : AF_INET));
  int bound = 0;
  if (address.unix_socket) {
    PHAROS_TRY(const UnixName name, unix_name(address.place));
    // The file gets the socket's mode when it is created, so that other users can never connect. A umask would have the
    // same effect, but would also change files that other threads create.
    if (::fchmod(socket.get(), 0600) != 0) return Error::from_errno("listening at " + where, errno);
    bound = ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&name.name), sizeof name.name);
  } else {
    const int one = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    PHAROS_TRY(const sockaddr_in name, inet_name(address));
    bound = ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name);
  }
  if (bound != 0 || ::listen(socket.get(), 128) != 0) {
    return Error::from_errno(
        "listening at " + where, errno,
        errno == EADDRINUSE ? "Another process has it: choose another, or stop that process." : "");
  }
  return socket;
}

namespace {

Address address_of(const sockaddr_in& name) {
  char host[INET_ADDRSTRLEN];
  ::inet_ntop(AF_INET, &name.sin_addr, host, sizeof host);
  return Address{.unix_socket = false, .place = host, .port = ntohs(name.sin_port)};
}

// Called after the system call that asked for the name. Only sockets of TCP have an Address.
Result<Address> address_or_error(bool known, const sockaddr_in& name, const char* asking) {
  if (!known) return Error::from_errno(asking, errno);
  if (name.sin_family != AF_INET) return Error::from_errno(asking, EAFNOSUPPORT);
  return address_of(name);
}

}  // namespace

Result<Address> bound_address(int socket) {
  sockaddr_in name{};
  socklen_t size = sizeof name;
  const bool known = ::getsockname(socket, reinterpret_cast<sockaddr*>(&name), &size) == 0;
  return address_or_error(known, name, "asking where a socket listens");
}

Result<Address> far_address(int socket) {
  sockaddr_in name{};
  socklen_t size = sizeof name;
  const bool known = ::getpeername(socket, reinterpret_cast<sockaddr*>(&name), &size) == 0;
  return address_or_error(known, name, "asking who is at the other end of a socket");
}

Result<Fd> connect_to(const Address& address, async::Deadline deadline) {
  PHAROS_TRY(Connecting connecting, begin_connecting(address));
  if (!connecting.done) {
    PHAROS_TRY_VOID(wait_until_connected(connecting.socket.get(), deadline, address.to_string()));
  }
  PHAROS_TRY_VOID(finish_connecting(connecting.socket.get(), address));
  return std::move(connecting.socket);
}

async::Async<Result<Fd>> connect_to(Reactor* reactor, Address address, async::Deadline deadline) {
  PHAROS_CO_TRY(Connecting connecting, begin_connecting(address));
  if (!connecting.done) {
    const auto waited = co_await wait_until_ready(reactor, connecting.socket.get(), EPOLLOUT, deadline);
    if (!waited) co_return Error{waited.error()}.with("connecting to " + address.to_string());
  }
  PHAROS_CO_TRY_VOID(finish_connecting(connecting.socket.get(), address));
  co_return std::move(connecting.socket);
}

Result<void> set_up_far_socket(int tcp_socket) {
  constexpr int kOn = 1;
  constexpr int kProbeSeconds = 2;
  constexpr int kProbes = 4;
  constexpr int kSilenceMilliseconds = 10'000;
  constexpr int kLongestWaitName = 44;  // TCP_RTO_MAX_MS, from Linux 6.15 on; the headers of Debian 12 lack it
  constexpr int kLongestWaitMilliseconds = 1000;
  const auto set = [tcp_socket](int level, int name, int value) {
    return ::setsockopt(tcp_socket, level, name, &value, sizeof value) == 0;
  };
  // By default the pauses between retransmissions double. After an interruption of some seconds the next retransmission
  // would come only after as many seconds again, possibly after the timeout. An older kernel has no such limit, but can
  // keep the pauses between the first retransmissions equal.
  if (!set(IPPROTO_TCP, kLongestWaitName, kLongestWaitMilliseconds)) {
    set(IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, kOn);
  }
  if (set(IPPROTO_TCP, TCP_NODELAY, kOn) && set(SOL_SOCKET, SO_KEEPALIVE, kOn) &&
      set(IPPROTO_TCP, TCP_KEEPIDLE, kProbeSeconds) && set(IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds) &&
      set(IPPROTO_TCP, TCP_KEEPCNT, kProbes) && set(IPPROTO_TCP, TCP_USER_TIMEOUT, kSilenceMilliseconds)) {
    return {};
  }
  return Error::from_errno("setting a connection's timeouts", errno);
}

// TCP_USER_TIMEOUT also sets the time after which unanswered keepalive probes end an idle connection.
Result<void> make_patient(int tcp_socket) {
  constexpr int kSilenceMilliseconds = 80'000;
  if (::setsockopt(tcp_socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kSilenceMilliseconds, sizeof kSilenceMilliseconds) ==
      0) {
    return {};
  }
  return Error::from_errno("setting a connection's timeouts", errno);
}

Result<void> check_peer_is_this_user(int unix_socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(unix_socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return Error::from_errno("reading the user of the process at the other end", errno);
  }
  if (peer.uid == ::geteuid()) return {};
  return Error{ErrorCode::kPermissionDenied, "the process at the other end belongs to user " +
                                                 std::to_string(peer.uid) + ", this one to user " +
                                                 std::to_string(::geteuid())};
}

}  // namespace pharos::net
