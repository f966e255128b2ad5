#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"
#include "own_loopback.hpp"

namespace pharos::cluster::joining {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

int twice(int value) {
  return 2 * value;
}

RuntimeOptions at(const std::string& address, const std::string& token_file = {}) {
  return {.address = address, .token_file = token_file, .listen = {}};
}
RuntimeOptions listening(const std::string& place) {
  return {.address = {}, .token_file = {}, .listen = place};
}

sockaddr_in name_of(const std::string& host, int port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<std::uint16_t>(port));
  EXPECT_EQ(::inet_pton(AF_INET, host.c_str(), &name.sin_addr), 1);
  return name;
}

/// A TCP port at this process's loopback address. Others can connect to it until release().
class BusyPort {
 public:
  BusyPort() : socket_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
    sockaddr_in name = name_of(own_loopback(), 0);
    socklen_t size = sizeof name;
    EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&name), size), 0);
    EXPECT_EQ(::listen(socket_, 1), 0);
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&name), &size), 0);
    number_ = ntohs(name.sin_port);
  }
  BusyPort(BusyPort&&) = delete;
  ~BusyPort() { release(); }

  int socket() const { return socket_; }
  std::string address() const { return own_loopback() + ":" + std::to_string(number_); }
  /// A connection to the port.
  int connect() const {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in name = name_of(own_loopback(), number_);
    EXPECT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
    return socket;
  }
  void release() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

 private:
  int socket_;
  int number_ = 0;
};

/// Has a cluster to join. The Runtime of that cluster must still work after other Runtimes have failed to join.
class JoiningTest : public ClusterTest {
 protected:
  void SetUp() override {
    ClusterTest::SetUp();
    runtime_.emplace();
  }
  void TearDown() override {
    if (runtime_) {
      EXPECT_EQ(runtime_->submit<&twice>(1).get(), 2);
    }
    runtime_.reset();
    fs::remove_all(token_folder());
    ClusterTest::TearDown();
  }

  std::string address() const { return runtime_->address(); }
  fs::path own_token() const { return fs::path{address().substr(5)}.parent_path() / "token"; }
  fs::path token_folder() const { return census().folder() / "tokens"; }
  std::string write_token(const std::string& bytes, mode_t mode = 0600) const {
    fs::create_directory(token_folder());
    const fs::path path = token_folder() / "token";
    std::ofstream{path, std::ios::binary} << bytes;
    ::chmod(path.c_str(), mode);
    return path;
  }
  std::string right_token() const {
    std::ifstream file{own_token(), std::ios::binary};
    return {std::istreambuf_iterator<char>{file}, {}};
  }

  std::optional<Runtime> runtime_;
};

TEST_F(JoiningTest, TheRightTokenInAnotherFileJoins) {
  Runtime joined{at(address(), write_token(right_token()))};
  EXPECT_EQ(joined.submit<&twice>(2).get(), 4);
}

TEST_F(JoiningTest, WithoutATokenFileItSaysWhereItLookedAndWhatToSet) {
  fs::remove(own_token());
  const std::string text = message_of<PermissionDenied>([&] { const Runtime joined{at(address())}; });
  EXPECT_SAYS(text, own_token().string());
  EXPECT_SAYS(text, "PHAROS_TOKEN_FILE");
}

TEST_F(JoiningTest, AWrongTokenIsPermissionDenied) {
  const auto file = write_token(std::string(32, 'w'));
  std::string text;
  const auto waited =
      time_of([&] { text = message_of<PermissionDenied>([&] { const Runtime joined{at(address(), file)}; }); });
  EXPECT_LT(waited, 2s);
  EXPECT_SAYS(text, "token");
}

TEST_F(JoiningTest, ATokenThatOthersCanReadIsRefused) {
  for (const mode_t mode : {0644, 0640, 0604}) {
    const auto file = write_token(right_token(), mode);
    const std::string text = message_of<PermissionDenied>([&] { const Runtime joined{at(address(), file)}; });
    EXPECT_SAYS(text, file);
    EXPECT_SAYS(text, "chmod 600");
  }
}

TEST_F(JoiningTest, ATokenOfAnotherLengthIsRefused) {
  for (const std::size_t size : {0, 31, 33}) {
    const auto file = write_token(std::string(size, 't'));
    EXPECT_SAYS(message_of<PermissionDenied>([&] { const Runtime joined{at(address(), file)}; }), "32 bytes");
  }
}

TEST_F(JoiningTest, AnAddressThatNobodyHasIsNamed) {
  const auto file = write_token(right_token());
  BusyPort port;
  port.release();
  const std::string nobody = port.address();
  EXPECT_SAYS(message_of<Unavailable>([&] { const Runtime joined{at(nobody, file)}; }), nobody);
  const std::string no_socket = "unix:" + (census().folder() / "none.sock").string();
  EXPECT_SAYS(message_of<NotFound>([&] { const Runtime joined{at(no_socket, file)}; }), no_socket);
  const std::string no_folder = "unix:" + (census().folder() / "none" / "node.sock").string();
  EXPECT_SAYS(message_of<NotFound>([&] { const Runtime joined{at(no_folder, file)}; }), "none");
}

TEST_F(JoiningTest, APeerThatSaysNothingIsGivenUpInTime) {
  must_end_within(90s);
  const BusyPort mute;
  const auto waited = time_of([&] {
    EXPECT_SAYS(
        message_of<DeadlineExceeded>([&] { const Runtime joined{at(mute.address(), write_token(right_token()))}; }),
        mute.address());
  });
  EXPECT_LT(waited, 15s) << "nobody should wait a minute for a stranger's first byte";
}

TEST_F(JoiningTest, AnAddressThatIsNoneIsInvalid) {
  const auto file = write_token(right_token());
  for (const std::string garbage :
       {"nonsense", "127.0.0.1", "127.0.0.1:", ":", ":80", "127.0.0.1:99999", "127.0.0.1:8x", "unix:", "300.0.0.1:80",
        "http://127.0.0.1:80", "somewhere.example:80", " "}) {
    const std::string text = message_of<InvalidArgument>([&] { const Runtime joined{at(garbage, file)}; });
    EXPECT_FALSE(text.empty());
  }
  message_of<InvalidArgument>([&] { const Runtime joined{at("unix:" + std::string(5000, 'p'), file)}; });
}

TEST_F(JoiningTest, JoiningOverTcpWorks) {
  BusyPort port;
  port.release();
  const std::string place = port.address();
  Runtime cluster{listening(place)};
  const auto token = fs::path{cluster.address().substr(5)}.parent_path() / "token";
  const auto waited = time_of([&] {
    Runtime joined{at(place, token)};
    EXPECT_EQ(joined.submit<&twice>(2).get(), 4);
  });
  EXPECT_LT(waited, 5s);
}

TEST_F(JoiningTest, StrangersWhoSayNonsenseOrNothingDoNotHarmTheCluster) {
  BusyPort port;
  port.release();
  Runtime cluster{listening(port.address())};
  std::vector<int> sockets;
  for (int i = 0; i < 100; ++i) {
    sockets.push_back(port.connect());
    const std::string nonsense(1000, static_cast<char>(i));
    if (i % 2 == 0) [[maybe_unused]]
      const auto n = ::send(sockets.back(), nonsense.data(), nonsense.size(), MSG_NOSIGNAL);
  }
  EXPECT_EQ(cluster.submit<&twice>(2).get(), 4);
  // Who says nonsense is shown the door: the connection ends, or is reset because bytes of it were not read.
  for (std::size_t i = 0; i < sockets.size(); i += 2) {
    char one = 0;
    EXPECT_TRUE(eventually([&] {
      const ssize_t n = ::recv(sockets[i], &one, 1, MSG_DONTWAIT);
      return n == 0 || (n < 0 && errno == ECONNRESET);
    })) << "stranger "
        << i;
  }
  for (const int socket : sockets) ::close(socket);
}

/// The first messages of both ends begin with eight bytes that name the protocol and four for its version.
constexpr std::size_t kHelloBytes = 64;
constexpr std::size_t kAnswerBytes = 96;
constexpr std::size_t kVersionAt = 8;

/// A connection to the port whose reads end within 20 seconds.
int patient_connection_to(const BusyPort& port) {
  const int socket = port.connect();
  const timeval patience{.tv_sec = 20, .tv_usec = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return socket;
}

TEST_F(JoiningTest, AClusterOfAnotherVersionIsRefusedNamingBoth) {
  BusyPort other;
  std::thread older{[&] {
    const int socket = ::accept(other.socket(), nullptr, nullptr);
    std::string hello(kHelloBytes, '\0');
    EXPECT_EQ(::recv(socket, hello.data(), hello.size(), MSG_WAITALL), static_cast<ssize_t>(kHelloBytes));
    hello[kVersionAt] = 99;
    hello.resize(kAnswerBytes);
    EXPECT_EQ(::send(socket, hello.data(), hello.size(), MSG_NOSIGNAL), static_cast<ssize_t>(kAnswerBytes));
    ::close(socket);
  }};
  std::string text;
  const auto waited = time_of([&] {
    text = message_of<Exception>([&] { const Runtime joined{at(other.address(), write_token(right_token()))}; });
  });
  older.join();
  EXPECT_LT(waited, 5s);
  EXPECT_SAYS(text, "the peer speaks protocol version 99, this process version ");
  EXPECT_SAYS(text, "Run the same Pharos version on both sides.");
}

TEST_F(JoiningTest, AProcessOfAnotherVersionIsToldOurs) {
  BusyPort port;
  port.release();
  Runtime cluster{listening(port.address())};
  const int socket = patient_connection_to(port);
  std::string hello{"pharos\n\0\x63\0\0\0\1", 13};
  hello.resize(kHelloBytes);
  EXPECT_EQ(::send(socket, hello.data(), hello.size(), MSG_NOSIGNAL), static_cast<ssize_t>(kHelloBytes));
  std::string answer(kAnswerBytes + 1, '?');
  EXPECT_EQ(::recv(socket, answer.data(), answer.size(), MSG_WAITALL), static_cast<ssize_t>(kAnswerBytes));
  ::close(socket);
  EXPECT_EQ(answer.substr(0, kVersionAt), hello.substr(0, kVersionAt));
  EXPECT_GT(answer[kVersionAt], 0);
  EXPECT_NE(answer[kVersionAt], 99);
  EXPECT_EQ(cluster.submit<&twice>(2).get(), 4);
}

TEST_F(JoiningTest, ConnectionsThatNeverFinishTheirHandshakeAreFewAndEndInTimeAndKeepNobodyHereOut) {
  must_end_within(60s);
  BusyPort port;
  port.release();
  Runtime cluster{listening(port.address())};
  const auto token = fs::path{cluster.address().substr(5)}.parent_path() / "token";
  std::vector<int> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(patient_connection_to(port));
  const auto begin = std::chrono::steady_clock::now();
  const auto ended = [&](int socket) {
    char one = 0;
    return ::recv(socket, &one, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
  };
  const auto count = [&] { return std::count_if(silent.begin(), silent.end(), ended); };
  EXPECT_TRUE(eventually([&] { return count() >= 36; }, 3s));
  EXPECT_EQ(count(), 36) << "64 may try at once";
  { const Runtime joined{at(cluster.address())}; }
  EXPECT_TRUE(eventually([&] { return count() == 100; }, 8s));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 8s);
  Runtime far{at(port.address(), token)};
  EXPECT_EQ(far.submit<&twice>(2).get(), 4);
  for (const int socket : silent) ::close(socket);
}

using ListeningTest = ClusterTest;

TEST_F(ListeningTest, ABusyPortIsNamed) {
  const BusyPort port;
  const std::string text = message_of<AlreadyExists>([&] { const Runtime runtime{listening(port.address())}; });
  EXPECT_SAYS(text, port.address());
  EXPECT_SAYS(text, "choose another");
}

TEST_F(ListeningTest, APlaceThatIsNoneIsInvalid) {
  for (const std::string garbage : {"nonsense", "127.0.0.1", "127.0.0.1:99999", "unix:", "1.2.3:80"}) {
    message_of<InvalidArgument>([&] { const Runtime runtime{listening(garbage)}; });
  }
}

TEST_F(ListeningTest, AnAddressOfAnotherMachineIsATypedError) {
  EXPECT_SAYS(message_of<Unavailable>([] { const Runtime runtime{listening("192.0.2.1:7000")}; }), "192.0.2.1:7000");
}

}  // namespace
}  // namespace pharos::cluster::joining
