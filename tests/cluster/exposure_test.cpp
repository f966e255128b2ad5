// What other users of the machine and of its network can see of a cluster: its ports and its token.

#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "network.hpp"
#include "several_nodes.hpp"

namespace pharos::cluster::exposure {
namespace {

using namespace std::chrono_literals;

/// A token of 32 bytes. None of them is zero, so that the token can be found in texts that end with a zero byte.
constexpr const char* kToken = "nobody+may\xC3\xA9ver\x01see these?bytes~";

std::string contents(const fs::path& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}
fs::path proc(const FoundProcess& process) {
  return fs::path{"/proc"} / std::to_string(process.pid);
}

// ---- Ports

/// The sockets of the process, each as "socket:[NUMBER]".
std::set<std::string> sockets_of(const FoundProcess& process) {
  std::set<std::string> found;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator{proc(process) / "fd", gone}) {
    const std::string target = fs::read_symlink(entry.path(), gone);
    if (target.starts_with("socket:")) found.insert(target);
  }
  return found;
}
/// The addresses that the process's sockets are bound to, as the kernel writes them: the address in hexadecimal, in the
/// machine's byte order, then the port.
std::vector<std::string> places_of(const FoundProcess& process) {
  const auto sockets = sockets_of(process);
  std::vector<std::string> places;
  for (const char* const table : {"tcp", "tcp6", "udp", "udp6"}) {
    std::istringstream lines{contents(proc(process) / "net" / table)};
    std::string line;
    for (std::getline(lines, line); std::getline(lines, line);) {  // the first line names the columns
      std::istringstream words{line};
      std::array<std::string, 10> columns;
      for (std::string& column : columns) words >> column;
      if (sockets.contains("socket:[" + columns[9] + "]")) places.push_back(columns[1]);
    }
  }
  return places;
}
bool is_loopback(const std::string& place) {
  const std::string address = place.substr(0, place.find(':'));
  if (address == "00000000000000000000000001000000") return true;  // ::1
  const bool has_four_bytes = address.size() == 8 || address.starts_with("0000000000000000FFFF0000");
  return has_four_bytes && address.ends_with("7F");  // 127.x.x.x
}

using PortsTest = SeveralNodes;

TEST_F(PortsTest, WithoutBeingToldNobodyListensWhereAnotherMachineCouldCome) {
  must_end_within(60s);
  if (!Network::can_be_made()) GTEST_SKIP() << "network namespaces cannot be made here";
  const Network network{1};  // has an address that other machines could reach
  head_ = network.start(1, PHAROS_EXECUTABLE, {"start", "--head", "--block", "--cpus", "1"});
  const std::string line = read_until(*head_, "listening at 127.0.0.1:7400; token in ");
  const std::string token = line.substr(line.find("token in ") + 9);
  nodes_.push_back(
      network.start(1, PHAROS_EXECUTABLE, {"start", "--block", "--address", "127.0.0.1:7400", "--cpus", "1"}));
  read_until(*nodes_.back(), "joined the head at 127.0.0.1:7400");
  const auto joins =
      network.start(1, FAR_DRIVER, {"quiet"}, {{"PHAROS_ADDRESS", "127.0.0.1:7400"}, {"PHAROS_TOKEN_FILE", token}});
  const auto alone = network.start(1, FAR_DRIVER, {"quiet"});  // starts a cluster of its own
  read_until(*joins, "ready");
  read_until(*alone, "ready");
  census().wait_for(Part::kNode, 4);
  std::size_t heads_port = 0;
  for (const FoundProcess& process : census().processes()) {
    for (const std::string& place : places_of(process)) {
      EXPECT_TRUE(is_loopback(place)) << place << " of " << process.to_string();
      heads_port += place == "0100007F:1CE8" ? 1 : 0;  // 127.0.0.1:7400
    }
  }
  EXPECT_GT(heads_port, 0U) << "what is looked for can be seen";
  for (const auto* const program : {&joins, &alone}) {
    (*program)->kill(SIGKILL);
    (*program)->wait();
  }
  end(nodes_.back());
  nodes_.clear();
  end(head_);  // must end before its network is removed
}

// ---- The token

class TokenTest : public SeveralNodes {
 protected:
  void write_token(fs::perms others = fs::perms::none) const {
    fs::remove(token_file());
    std::ofstream{token_file(), std::ios::binary} << kToken;
    fs::permissions(token_file(), fs::perms::owner_read | fs::perms::owner_write | others);
  }
  /// The processes whose command line or environment contains one of these texts.
  std::vector<std::string> who_shows(const std::vector<std::string>& texts) const {
    std::vector<std::string> found;
    for (const FoundProcess& process : census().processes()) {
      const std::string shown = contents(proc(process) / "cmdline") + '\0' + contents(proc(process) / "environ");
      const auto holds = [&](const std::string& text) { return shown.find(text) != std::string::npos; };
      if (std::any_of(texts.begin(), texts.end(), holds)) found.push_back(process.to_string());
    }
    return found;
  }
};

TEST_F(TokenTest, NeitherAHeadNorANodeStartsWithOneThatOthersCanRead) {
  const std::vector<std::string> as_head{"--head", "--listen", "127.0.0.1:0"};
  const std::vector<std::string> as_node{"--address", "127.0.0.1:1"};
  for (const fs::perms others : {fs::perms::group_read | fs::perms::others_read, fs::perms::group_read,
                                 fs::perms::others_read, fs::perms::others_write}) {
    write_token(others);
    for (std::vector<std::string> words : {as_head, as_node}) {
      words.insert(words.begin(), {"start", "--block", "--token-file", token_file()});
      const auto end = start(words, "cpu=1")->wait();
      EXPECT_EQ(end.status >> 8, 1);
      EXPECT_EQ(end.output, "");
      EXPECT_SAYS(end.error, "the token file " + token_file() + " can be read by other users");
      EXPECT_SAYS(end.error, "chmod 600");
    }
  }
  write_token();
  start_head();
}

TEST_F(TokenTest, ItIsInNobodysCommandAndInNobodysEnvironment) {
  must_end_within(60s);
  write_token();
  start_three();
  ChildProgram program{PHAROS_EXECUTABLE,
                       {"run", "--address", address_, "--token-file", token_file(), "--", FAR_DRIVER, "owner"}};
  read_until(program, "ready");
  std::set<Part> parts;
  for (const FoundProcess& process : census().processes()) parts.insert(process.part);
  EXPECT_EQ(parts, (std::set{Part::kKeeper, Part::kNode, Part::kZygote, Part::kWorker, Part::kOther}));

  std::string small;
  std::string capital;
  for (const char* byte = kToken; *byte != '\0'; ++byte) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned char>(*byte));
    small += digits.data();
    std::snprintf(digits.data(), digits.size(), "%02X", static_cast<unsigned char>(*byte));
    capital += digits.data();
  }
  const std::vector<std::string> texts{kToken, small, capital, "bm9ib2R5K21hecOpdmVyAXNlZSB0aGVzZT9ieXRlc34"};
  EXPECT_EQ(who_shows(texts), std::vector<std::string>{});
  for (const std::string& text : texts) {
    // Proves that the search finds a process that shows the text.
    const ChildProgram in_environment{"/bin/sleep", {"60"}, {{"SECRET", text}}};
    EXPECT_TRUE(eventually([&] { return who_shows(texts).size() == 1; }));
    const ChildProgram in_command{"/bin/sh", {"-c", "sleep 60; true", text}};
    EXPECT_TRUE(eventually([&] { return who_shows(texts).size() == 2; }));
  }
  program.kill(SIGKILL);
  program.wait();
}

}  // namespace
}  // namespace pharos::cluster::exposure
