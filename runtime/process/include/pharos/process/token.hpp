#pragma once

#include <string>

#include <pharos/base/result.hpp>
#include <pharos/net/handshake.hpp>

namespace pharos::process {

/// Reads a cluster's token: 32 bytes in a file of mode 0600. Fails with kPermissionDenied if the file cannot be opened
/// or is a symbolic link, if other users own it or may read it, or if it has another size.
Result<net::Key> read_token(const std::string& path);

/// Writes the token to a new file of mode 0600. Fails with kAlreadyExists if the file exists, and with the error of
/// errno; a file that was written in part is removed.
Result<void> write_token(const std::string& path, const net::Key& token);

}  // namespace pharos::process
