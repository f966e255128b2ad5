#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::console {

/// Whom to ask.
struct Place {
  std::string address;     ///< "unix:/path/node.sock" or "HOST:PORT"; empty: the only cluster of this user here
  std::string token_file;  ///< of the second; of the first it lies beside the socket
};

/// Where the token lies of the cluster whose node has this socket; without an address, of the only cluster of this user
/// here.
Result<std::string> token_of_cluster_here(const std::string& address = {});

/// Which clusters count where none is named.
enum class Here : std::uint8_t {
  kAny,      ///< a program's own, too, if no other runs
  kStarted,  ///< those that this user has started
};
/// The node, or all nodes here of that cluster.
Result<std::vector<std::string>> addresses_of(const Place& place, Here which = Here::kAny);
/// One of them.
Result<std::string> address_of(const Place& place);
/// Over TCP a token is needed.
Result<void> check_token_is_named(const Place& place);

/// A node's answer.
Result<wire::Message> ask(const Place& place, wire::Message question);

/// A node that is asked several things, which may be about others.
/// One thread.
class Asked {
 public:
  static Result<Asked> connect(const Place& place);
  Asked(Asked&&) noexcept;
  ~Asked();

  Result<wire::Message> ask(wire::Message question);
  /// Each answer in its question's place.
  std::vector<Result<wire::Message>> ask_all(std::vector<wire::Message> questions);

 private:
  struct Connection;
  explicit Asked(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

constexpr std::uint32_t kAllRows = 10'000;  // as many as there may be in an answer
/// As one table. kInternal: it is none.
Result<wire::Rows> rows_of(Result<wire::Message> answer);
/// Some could not be asked; `silent`: a line for each, with why.
Error nodes_are_silent(const std::string& silent);
/// Of a cell that holds its id; none: of another text.
NodeId node_of(const std::string& cell);

}  // namespace pharos::console
