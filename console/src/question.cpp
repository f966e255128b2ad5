#include "question.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include <pharos/async/async_group.hpp>
#include <pharos/net/address.hpp>
#include <pharos/net/blocking_io.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/net/reactor.hpp>
#include <pharos/net/socket_link.hpp>
#include <pharos/node/introduction.hpp>
#include <pharos/process/run_folder.hpp>
#include <pharos/process/token.hpp>

namespace pharos::console {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr auto kAnswerTime = 10s;

class Silent final : public net::Peer::Owner {
 public:
  void on_message(net::Peer&, net::Parcel, std::optional<std::uint64_t>) override {}
  void on_peer_closed(net::Peer&, const Error&) override {}
};

/// A node on this machine.
struct NodeHere {
  std::string address;
  std::string about;  // empty: the cluster belongs to a program
};

fs::path folder_of(const std::string& address) {
  return fs::path{address.substr(address.find(':') + 1)}.parent_path();
}

// The nodes of one cluster have the same token.
bool are_one_cluster(const std::vector<NodeHere>& nodes) {
  return std::all_of(nodes.begin(), nodes.end(), [&](const NodeHere& each) {
    const auto first = process::read_token(folder_of(nodes.front().address) / "token");
    const auto token = process::read_token(folder_of(each.address) / "token");
    return first && token && *first == *token;
  });
}

/// Returns the nodes of the only cluster on this machine. Clusters that the user started count before those that
/// programs run for themselves.
Result<std::vector<NodeHere>> nodes_here() {
  PHAROS_TRY(const std::string base, process::ensure_base_folder());
  process::sweep_run_folders(base);
  std::vector<NodeHere> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator{base, error}) {
    if (!fs::exists(entry.path() / "node.sock")) continue;
    NodeHere node{"unix:" + (entry.path() / "node.sock").string(), {}};
    std::ifstream file{entry.path() / "started"};
    std::getline(file, node.about);
    found.push_back(std::move(node));
  }
  const auto own =
      std::stable_partition(found.begin(), found.end(), [](const NodeHere& each) { return !each.about.empty(); });
  if (own != found.begin()) found.erase(own, found.end());
  if (found.empty()) {
    return Error{ErrorCode::kNotFound, "no cluster of this user runs on this machine, as far as " + base + " shows",
                 "Start one: pharos start --head. Or say where one is: --address HOST:PORT --token-file FILE."};
  }
  if (are_one_cluster(found)) return found;
  std::string all;
  for (const NodeHere& each : found) {
    all += "\n  --address " + each.address + "  # " + (each.about.empty() ? "a program's own" : each.about);
  }
  return Error{ErrorCode::kInvalidArgument, "several clusters run on this machine", "Choose one:" + all};
}

// A node's own Unix socket expects drivers. Its TCP socket expects nodes, and a connection that asks questions must say
// so in an Introduction.
Result<Fd> connect(const net::Address& address, const std::string& token_file, async::Deadline deadline) {
  const bool here = address.unix_socket;
  if (here && !fs::exists(address.place)) {
    return Error{ErrorCode::kNotFound, "there is no socket " + address.place,
                 "pharos list nodes shows where nodes are."};
  }
  PHAROS_TRY(const net::Key token,
             process::read_token(here ? fs::path{address.place}.parent_path() / "token" : fs::path{token_file}));
  PHAROS_TRY(Fd socket, net::connect_to(address, deadline));
  const net::Identity self{here ? net::Role::kDriver : net::Role::kNode, 0};
  PHAROS_TRY([[maybe_unused]] const auto node, net::initiate(socket.get(), token, self, deadline));
  if (here) return socket;
  const node::Introduction introduction{.purpose = node::Introduction::Purpose::kAsk};
  PHAROS_TRY_VOID(net::send_all(socket.get(), std::as_bytes(std::span{&introduction, 1}), deadline));
  return socket;
}

}  // namespace

Result<std::string> token_of_cluster_here(const std::string& address) {
  if (!address.empty()) {
    PHAROS_TRY(const net::Address place, net::parse_address(address));
    if (place.unix_socket) return (fs::path{place.place}.parent_path() / "token").string();
    return Error{ErrorCode::kInvalidArgument, "a token is found beside a node's socket on this machine alone",
                 "Give --address unix:PATH."};
  }
  PHAROS_TRY(const auto nodes, nodes_here());
  return (folder_of(nodes.front().address) / "token").string();
}

Error nodes_are_silent(const std::string& silent) {
  return {ErrorCode::kUnavailable, "not all nodes answer:" + silent};
}

Result<void> check_token_is_named(const Place& place) {
  if (!place.token_file.empty()) return {};
  return Error{ErrorCode::kInvalidArgument, "the cluster's token is needed",
               "Name a copy of it: --token-file FILE, or PHAROS_TOKEN_FILE."};
}

Result<std::vector<std::string>> addresses_of(const Place& place, Here which) {
  if (!place.address.empty()) return std::vector{place.address};
  if (const char* const given = std::getenv("PHAROS_ADDRESS")) return std::vector{std::string{given}};
  PHAROS_TRY(const auto nodes, nodes_here());
  if (which == Here::kStarted && nodes.front().about.empty()) {
    return Error{
        ErrorCode::kNotFound, "no cluster was started by this user on this machine",
        "A program has one of its own, which ends with it: --address " + nodes.front().address + " ends both."};
  }
  std::vector<std::string> addresses;
  for (const NodeHere& each : nodes) addresses.push_back(each.address);
  return addresses;
}

Result<std::string> address_of(const Place& place) {
  PHAROS_TRY(auto addresses, addresses_of(place));
  return std::move(addresses.front());
}

struct NodeConnection::Connection {
  std::string address;
  net::Reactor reactor;
  Silent owner;
  std::shared_ptr<net::Peer> peer;

  ~Connection() {
    if (peer != nullptr) peer->close();
  }
  async::Async<void> ask(wire::Message question, Result<wire::Message>* to, std::size_t* missing) {
    const auto deadline = async::Deadline::after(kAnswerTime, reactor.now());
    auto answer = co_await peer->request(std::move(question), std::vector<Fd>{}, deadline);
    if (answer) {
      *to = std::move(answer->message);
    } else {
      *to = std::move(answer).error().with("asking " + address);
    }
    --*missing;
  }
};

NodeConnection::NodeConnection(std::unique_ptr<Connection> connection) : connection_{std::move(connection)} {}
NodeConnection::NodeConnection(NodeConnection&&) noexcept = default;
NodeConnection::~NodeConnection() = default;

Result<NodeConnection> NodeConnection::connect(const Place& place) {
  PHAROS_TRY(const std::string text, address_of(place));
  PHAROS_TRY(const net::Address address, net::parse_address(text));
  const auto named = address.unix_socket ? Result<void>{} : check_token_is_named(place);
  if (!named) return Error{named.error()}.with("asking " + text);
  const auto deadline = async::Deadline::after(kAnswerTime, std::chrono::steady_clock::now());
  auto socket = console::connect(address, place.token_file, deadline);
  if (!socket) return std::move(socket).error().with("asking " + text);
  auto connection = std::make_unique<Connection>();
  connection->address = text;
  const auto link = net::SocketLink::make(connection->reactor, *std::move(socket), net::Descriptors::kRefused);
  connection->peer = net::Peer::make(connection->reactor, link, connection->owner);
  link->start(connection->peer);
  return NodeConnection{std::move(connection)};
}

std::vector<Result<wire::Message>> NodeConnection::ask_all(std::vector<wire::Message> questions) {
  constexpr std::size_t kAtOnce = 32;  // a node passes on at most twice as many
  std::vector<Result<wire::Message>> answers;
  for (std::size_t i = 0; i < questions.size(); ++i) answers.emplace_back(wire::Message{wire::Done{}});
  async::AsyncGroup group{connection_->reactor};
  std::size_t missing = 0;
  for (std::size_t next = 0; next < questions.size() || missing != 0;) {
    for (; next < questions.size() && missing < kAtOnce; ++next, ++missing) {
      group.spawn(connection_->ask(std::move(questions[next]), &answers[next], &missing));
    }
    connection_->reactor.poll_one(async::Deadline::never());
  }
  while (group.size() != 0) connection_->reactor.poll_one(async::Deadline::never());
  return answers;
}

Result<wire::Message> NodeConnection::ask(wire::Message question) {
  std::vector<wire::Message> one;
  one.push_back(std::move(question));
  return std::move(ask_all(std::move(one)).front());
}

Result<wire::Message> ask(const Place& place, wire::Message question) {
  PHAROS_TRY(NodeConnection asked, NodeConnection::connect(place));
  return asked.ask(std::move(question));
}

NodeId node_of(const std::string& cell) {
  return NodeId{std::strtoull(cell.c_str(), nullptr, 16)};
}

Result<wire::Rows> rows_of(Result<wire::Message> answer) {
  if (!answer) return std::move(answer).error();
  auto* const rows = std::get_if<wire::Rows>(&*answer);
  if (rows == nullptr) return Error{ErrorCode::kInternal, "the node sent an invalid answer"};
  return std::move(*rows);
}

Result<std::set<NodeId>> nodes_of_cluster(NodeConnection& asked) {
  std::set<NodeId> nodes;
  for (const auto& [table, column] : {std::pair{"nodes", "id"}, std::pair{"jobs", "node"}}) {
    PHAROS_TRY(const wire::Rows rows,
               rows_of(asked.ask(wire::ListRows{.table = table, .filters = {}, .limit = kAllRows})));
    const auto found = std::find(rows.columns.begin(), rows.columns.end(), column);
    if (found == rows.columns.end()) return Error{ErrorCode::kInternal, "the node sent an invalid answer"};
    for (const auto& row : rows.rows) {
      const NodeId node = node_of(row[static_cast<std::size_t>(found - rows.columns.begin())]);
      if (node) nodes.insert(node);  // a program that has ended has no node
    }
  }
  return nodes;
}

Result<RowsOfNodes> rows_of_nodes(NodeConnection& asked, std::vector<wire::Message> questions, std::size_t columns) {
  RowsOfNodes all;
  for (auto& answer : asked.ask_all(std::move(questions))) {
    auto rows = rows_of(std::move(answer));
    if (!rows) {
      all.silent += "\n  " + rows.error().to_string();
      continue;
    }
    const auto has_all = [&](const auto& row) { return row.size() == columns; };
    if (rows->columns.size() != columns || !std::all_of(rows->rows.begin(), rows->rows.end(), has_all)) {
      return Error{ErrorCode::kInternal, "the node sent an invalid answer"};
    }
    all.rows.columns = std::move(rows->columns);
    all.rows.matching += rows->matching;
    std::move(rows->rows.begin(), rows->rows.end(), std::back_inserter(all.rows.rows));
  }
  return all;
}

Result<RowsOfNodes> rows_of_each(NodeConnection& asked, const std::set<NodeId>& nodes, const wire::ListRows& question,
                                 std::size_t columns) {
  std::vector<wire::Message> questions;
  for (const NodeId node : nodes) {
    wire::ListRows one = question;
    one.node = node;
    questions.emplace_back(std::move(one));
  }
  return rows_of_nodes(asked, std::move(questions), columns);
}

}  // namespace pharos::console
