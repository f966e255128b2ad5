#pragma once

#include <string>

#include <pharos/base/result.hpp>
#include <pharos/wire/message.hpp>

namespace pharos::console {

/// Whom to ask.
struct Place {
  std::string address;     ///< "unix:/path/node.sock" or "HOST:PORT"; empty: the only cluster of this user here
  std::string token_file;  ///< of the second; of the first it lies beside the socket
};

/// Where the token lies of the only cluster of this user here.
Result<std::string> token_of_cluster_here();

/// A node's answer.
Result<wire::Message> ask(const Place& place, wire::Message question);

}  // namespace pharos::console
