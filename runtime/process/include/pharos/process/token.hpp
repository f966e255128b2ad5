#pragma once

#include <string>

#include <pharos/base/result.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/net/token_ring.hpp>

namespace pharos::process {

/// Reads a cluster's tokens from a file of mode 0600: 32 bytes, and 40 more for each earlier token that may still be
/// valid. Fails with kPermissionDenied if the file cannot be opened or read, belongs to or can be read by other users,
/// or does not hold tokens.
Result<net::TokenRing> read_token_ring(const std::string& path);
/// The same, for the present token alone.
Result<net::Key> read_token(const std::string& path);

/// Writes the token to a new file of mode 0600. Fails with kAlreadyExists if the file exists, and with the error of
/// the system; then it leaves no file behind.
Result<void> write_token(const std::string& path, const net::Key& token);
/// Writes the tokens in place of those in the file, or to a new one. Whoever reads the file finds either all of the old
/// ones or all of the new ones, also after a crash. Fails with the error of the system, and leaves the file as it was.
Result<void> replace_token_ring(const std::string& path, const net::TokenRing& tokens);

}  // namespace pharos::process
