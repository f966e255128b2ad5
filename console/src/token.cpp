#include <iostream>
#include <memory>
#include <string>

#include "commands.hpp"

namespace pharos::console {
namespace {

Result<void> print_token(const std::string& address) {
  PHAROS_TRY(const std::string file, token_of_cluster_here(address));
  std::cout << file << std::endl;
  return {};
}

}  // namespace

void add_token(Commands& commands) {
  const auto address = std::make_shared<std::string>();
  CLI::App& command = commands.add("token", "Prints the path of the token of the cluster on this machine",
                                   [address] { return status_of(print_token(*address)); });
  command.add_option("--address", *address, "One of its nodes on this machine, if several clusters run here")
      ->type_name("unix:PATH");
  command.footer("Examples:\n  scp \"$(pharos token)\" 10.0.0.2:cluster.token");
}

}  // namespace pharos::console
