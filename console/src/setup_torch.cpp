#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>

#include <pharos/base/error.hpp>

#include "commands.hpp"

namespace pharos::console {
namespace {

/// Becomes the script that fetches libtorch, which is installed beside the executable.
Result<void> setup_torch(const std::string& folder) {
  namespace fs = std::filesystem;
  const fs::path script = fs::read_symlink("/proc/self/exe").parent_path().parent_path() / PHAROS_SETUP_TORCH;
  ::execl(script.c_str(), script.c_str(), folder.c_str(), nullptr);
  return Error::from_errno("starting " + script.string(), errno,
                           "It belongs to an installed copy of Pharos, and needs Python (apt install python3-pip).");
}

}  // namespace

void add_setup_torch(Commands& commands) {
  const auto folder = std::make_shared<std::string>();
  CLI::App& command =
      commands.add("setup-torch", "Fetches the libtorch that this copy of Pharos trains with, from PyPI",
                   [folder] { return status_of(setup_torch(*folder)); });
  command.add_option("FOLDER", *folder, "Where it goes: a folder that does not exist yet; it gets 1 GB")->required();
  command.footer(
      "Examples:\n  pharos setup-torch ~/libtorch\n  cmake -S demo -B demo/build -DPHAROS_TORCH_DIR=$HOME/libtorch");
}

}  // namespace pharos::console
