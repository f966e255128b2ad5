#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::console {

/// The cluster or the node that a command asks. A value.
struct Place {
  /// "unix:/path/node.sock" or "HOST:PORT". Empty: the address in PHAROS_ADDRESS, or else the only cluster of this user
  /// on this machine.
  std::string address;
  /// Needed for HOST:PORT. For a Unix socket the token is beside the socket.
  std::string token_file;
};

// Commands call these functions on the thread of main(). A search for a cluster on this machine also removes the run
// folders of daemons that have died. The search fails with kNotFound if there is no cluster, and with kInvalidArgument
// if there are several.

/// Returns the path of the token of the cluster whose node has this socket, without a look whether the file is there;
/// without an address, of the only cluster of this user on this machine, and PHAROS_ADDRESS is not read. Returns
/// kInvalidArgument if the address is not that of a Unix socket.
Result<std::string> token_of_cluster_here(const std::string& address = {});

/// Says which clusters on this machine count if no address is given.
enum class Here : std::uint8_t {
  kAny,      ///< those that the user started, or, if there are none, those that programs run for themselves
  kStarted,  ///< only those that the user started
};
/// Returns the address in `place`, or that in PHAROS_ADDRESS, unchecked. Without both, returns the addresses of all
/// nodes of the only cluster on this machine.
Result<std::vector<std::string>> addresses_of(const Place& place, Here which = Here::kAny);
/// Returns the first of addresses_of().
Result<std::string> address_of(const Place& place);
/// Returns kInvalidArgument if no token file is given, which is needed over TCP.
Result<void> check_token_is_named(const Place& place);

/// Asks a node one question over a connection of its own, and returns the answer: see NodeConnection. Blocks for at
/// most about 20 seconds: 10 to connect, and 10 for the answer.
Result<wire::Message> ask(const Place& place, wire::Message question);

/// A connection to one node, which answers questions about itself and passes on questions about other nodes. Owned by
/// the command that asks; for one thread, which blocks. The destructor closes the connection. A moved-from connection
/// can only be destroyed.
/// Failure: each question fails with kDeadlineExceeded after 10 seconds without an answer. If the node refuses the
/// question, its error is returned. If the connection ends, all open and later questions fail, mostly with
/// kUnavailable. The texts of the errors name the address.
class NodeConnection {
 public:
  /// Blocks for at most about 10 seconds, and longer only while a host name is looked up. Fails with the errors of
  /// address_of(), with kInvalidArgument if a TCP address comes without a token file, with kNotFound if there is no
  /// such socket, and with the errors of reading the token, of the system and of the handshake.
  static Result<NodeConnection> connect(const Place& place);
  NodeConnection(NodeConnection&&) noexcept;
  ~NodeConnection();

  Result<wire::Message> ask(wire::Message question);
  /// Asks up to 32 questions at once, and waits until each has its answer or its error. Returns these in the order of
  /// the questions.
  std::vector<Result<wire::Message>> ask_all(std::vector<wire::Message> questions);

 private:
  struct Connection;
  explicit NodeConnection(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

constexpr std::uint32_t kAllRows = 10'000;  // the most rows that an answer may have
/// Returns the answer as rows. Returns the error of the answer if there is one, and kInternal if the answer is another
/// message than rows.
Result<wire::Rows> rows_of(Result<wire::Message> answer);
constexpr std::size_t kColumnsOfNodes = 7;  // of each node's lists of workers, tasks and objects
/// The rows of several nodes, and a line with the reason for each node that did not answer.
struct RowsOfNodes {
  wire::Rows rows;
  std::string silent;
};
/// Asks questions whose answers are rows with this number of columns, and puts all rows together. Returns kInternal if
/// an answer has another number.
Result<RowsOfNodes> rows_of_nodes(NodeConnection& asked, std::vector<wire::Message> questions, std::size_t columns);
/// Returns the nodes of the cluster, and those that programs run for themselves.
Result<std::set<NodeId>> nodes_of_cluster(NodeConnection& asked);
/// Asks each of these nodes the same, as rows_of_nodes() does.
Result<RowsOfNodes> rows_of_each(NodeConnection& asked, const std::set<NodeId>& nodes, const wire::ListRows& question,
                                 std::size_t columns);
/// Makes the error kUnavailable for nodes that could not be asked. `silent` has a line for each, with the reason.
Error nodes_are_silent(const std::string& silent);
/// Returns the node whose id is in the cell, in hexadecimal digits; text behind the digits is ignored. Returns an unset
/// id if the cell does not begin with such a number.
NodeId node_of(const std::string& cell);

}  // namespace pharos::console
