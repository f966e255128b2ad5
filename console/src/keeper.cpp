#include <memory>
#include <string>
#include <utility>

#include <pharos/base/fd.hpp>
#include <pharos/node/daemon.hpp>
#include <pharos/process/keeper.hpp>

#include "commands.hpp"
#include "daemon_options.hpp"

namespace pharos::console {
namespace {

constexpr int kDriverSocket = 3;  // the descriptor on which the library's start_daemon() passes the driver's socket

struct KeeperOptions {
  std::string base_folder;
  node::DaemonOptions daemon;
};

int keep_for_driver(const KeeperOptions& options) {
  return process::run_keeper(options.base_folder, [&](process::Kept kept) {
    return node::run_daemon(std::move(kept), Fd{kDriverSocket}, options.daemon);
  });
}

}  // namespace

void add_keeper(Commands& commands) {
  const auto options = std::make_shared<KeeperOptions>();
  CLI::App& command = commands.add("keeper", "Keeps a program's own daemon; started by programs, not by people",
                                   [options] { return keep_for_driver(*options); });
  command.group("");
  command.add_option("--base-folder", options->base_folder)->required();
  command.add_option("--listen", options->daemon.listen);
  command.add_option("--head", options->daemon.head);
  add_resource_options(command, options->daemon);
  add_store_options(command, options->daemon);
}

}  // namespace pharos::console
