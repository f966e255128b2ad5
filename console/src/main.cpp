// The pharos executable: the daemon's processes, and what people type.

#include <iostream>
#include <string>

#include <CLI/CLI.hpp>

#include <pharos/base/fd.hpp>
#include <pharos/node/daemon.hpp>
#include <pharos/process/keeper.hpp>

namespace {

constexpr int kDriverSocket = 3;  // as the library's start_embedded_cluster() passes it

struct KeeperArguments {
  std::string base_folder;
  pharos::node::DaemonOptions daemon;
};

int run_keeper(const KeeperArguments& arguments) {
  return pharos::process::run_keeper(arguments.base_folder, [&](pharos::process::Kept kept) {
    return pharos::node::run_daemon(std::move(kept), pharos::Fd{kDriverSocket}, arguments.daemon);
  });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Pharos, a distributed actor runtime for machine learning."};
  app.require_subcommand(1);
  app.set_version_flag("--version", PHAROS_VERSION);

  KeeperArguments arguments;
  CLI::App* const keeper =
      app.add_subcommand("keeper", "Keeps an embedded cluster; started by programs, not by people");
  keeper->group("");
  keeper->add_option("--base-folder", arguments.base_folder)->required();
  keeper->add_option("--listen", arguments.daemon.listen);
  keeper->add_option("--cpus", arguments.daemon.cpus);
  keeper->add_option("--object-store", arguments.daemon.object_store);

  CLI11_PARSE(app, argc, argv);
  return run_keeper(arguments);
}
