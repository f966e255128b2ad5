#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <span>

#include <pharos/net/blocking_io.hpp>
#include <pharos/process/inherited.hpp>

namespace pharos::process {
namespace {

constexpr const char* kVariable = "PHAROS_ROLE";

struct Captured {
  std::optional<InheritedRole> role;
  int descriptor = -1;
  int crash = -1;
};
Captured captured;  // written by capture_role() before the program's own code runs, later only by take_inherited()

bool is_socket(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

// Runs before the program's own initialisers, because the program depends on libpharos.so.
__attribute__((constructor)) void capture_role() {
  const char* const text = std::getenv(kVariable);
  if (text == nullptr) return;
  const std::string_view value = text;
  const std::size_t colon = value.find(':');
  if (colon != std::string_view::npos) {
    const std::string_view digits = value.substr(colon + 1);
    int descriptor = -1;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), descriptor);
    int crash = -1;
    if (parsed.ptr != digits.data() + digits.size()) {
      std::from_chars(parsed.ptr + 1, digits.data() + digits.size(), crash);
      if (crash >= 0) ::fcntl(crash, F_SETFD, FD_CLOEXEC);
    }
    if (parsed.ec == std::errc{} && is_socket(descriptor)) {
      if (value.substr(0, colon) == "zygote") captured.role = InheritedRole::kZygote;
      if (value.substr(0, colon) == "worker") captured.role = InheritedRole::kWorker;
      captured.descriptor = descriptor;
      captured.crash = crash;
      ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    }
  }
  ::unsetenv(kVariable);
}

}  // namespace

std::optional<Inherited> take_inherited() {
  if (!captured.role) return std::nullopt;
  Inherited inherited{*captured.role, Fd{captured.descriptor}, Fd{captured.crash}};
  captured = {};
  return inherited;
}

std::string role_variable(InheritedRole role, int socket, int crash) {
  std::string text =
      std::string{kVariable} + (role == InheritedRole::kZygote ? "=zygote:" : "=worker:") + std::to_string(socket);
  if (crash >= 0) text += ":" + std::to_string(crash);
  return text;
}

void Preamble::set_name(std::string_view text) {
  name[text.copy(name, sizeof name - 1)] = '\0';
}

Result<void> send_preamble(int socket, const Preamble& preamble) {
  // The send does not wait: the first bytes on a new socket always fit into its buffer.
  return net::send_all(socket, std::as_bytes(std::span{&preamble, 1}),
                       async::Deadline::at(std::chrono::steady_clock::now()));
}

Result<Preamble> receive_preamble(int socket, async::Deadline deadline) {
  Preamble preamble;
  PHAROS_TRY_VOID(net::receive_all(socket, std::as_writable_bytes(std::span{&preamble, 1}), deadline));
  preamble.name[sizeof preamble.name - 1] = '\0';
  return preamble;
}

}  // namespace pharos::process
