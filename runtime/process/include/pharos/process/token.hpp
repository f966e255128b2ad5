#pragma once

#include <string>

#include <pharos/base/result.hpp>
#include <pharos/net/handshake.hpp>

namespace pharos::process {

/// A cluster's token: 32 bytes in a file of mode 0600. kPermissionDenied when it is not this user's alone, or has
/// another size.
Result<net::Key> read_token(const std::string& path);

/// Makes the file; kAlreadyExists if it is there.
Result<void> write_token(const std::string& path, const net::Key& token);

}  // namespace pharos::process
