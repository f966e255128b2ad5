#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::console {

/// The cluster or the node that a command asks.
struct Place {
  /// "unix:/path/node.sock" or "HOST:PORT"; empty: the only cluster of this user on this machine.
  std::string address;
  /// Needed for HOST:PORT. For a Unix socket the token is beside the socket.
  std::string token_file;
};

/// Returns the path of the token of the cluster whose node has this socket; without an address, of the only cluster of
/// this user on this machine. Returns kNotFound if there is none, and kInvalidArgument if there are several.
Result<std::string> token_of_cluster_here(const std::string& address = {});

/// Says which clusters on this machine count if no address is given.
enum class Here : std::uint8_t {
  kAny,      ///< those that the user started, or, if there are none, those that programs run for themselves
  kStarted,  ///< only those that the user started
};
/// Returns the address of the node, or of all nodes of that cluster on this machine.
Result<std::vector<std::string>> addresses_of(const Place& place, Here which = Here::kAny);
/// Returns the first of addresses_of().
Result<std::string> address_of(const Place& place);
/// Returns kInvalidArgument if no token file is given, which is needed over TCP.
Result<void> check_token_is_named(const Place& place);

/// Asks a node one question and returns its answer. Blocks for at most about 10 seconds.
Result<wire::Message> ask(const Place& place, wire::Message question);

/// A connection to one node, which answers questions about itself and passes on questions about other nodes. For one
/// thread. Each question fails after 10 seconds without an answer.
class NodeConnection {
 public:
  static Result<NodeConnection> connect(const Place& place);
  NodeConnection(NodeConnection&&) noexcept;
  ~NodeConnection();

  Result<wire::Message> ask(wire::Message question);
  /// Returns the answers in the order of the questions.
  std::vector<Result<wire::Message>> ask_all(std::vector<wire::Message> questions);

 private:
  struct Connection;
  explicit NodeConnection(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

constexpr std::uint32_t kAllRows = 10'000;  // the most rows that an answer may have
/// Returns the answer as rows. Returns kInternal if it holds no rows.
Result<wire::Rows> rows_of(Result<wire::Message> answer);
/// Makes the error for nodes that could not be asked. `silent` has a line for each, with the reason.
Error nodes_are_silent(const std::string& silent);
/// Returns the node whose id is in the cell; an unset id if the cell has other text.
NodeId node_of(const std::string& cell);

}  // namespace pharos::console
