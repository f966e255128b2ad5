#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include <pharos/base/random.hpp>
#include <pharos/net/address.hpp>
#include <pharos/net/token_ring.hpp>
#include <pharos/process/token.hpp>

#include "commands.hpp"

namespace pharos::console {
namespace {

constexpr double kSecondsOfHour = 3600;

struct RotateOptions {
  Place place;
  double keep_hours = 24;
};

Result<void> print_token(const std::string& address) {
  PHAROS_TRY(const std::string file, token_of_cluster_here(address));
  std::cout << file << std::endl;
  return {};
}

/// The file with the cluster's token: beside the socket of a node here, or the user's copy.
Result<std::string> token_file_of(const Place& place) {
  PHAROS_TRY(const auto addresses, addresses_of(place));
  PHAROS_TRY(const net::Address address, net::parse_address(addresses.front()));
  if (address.unix_socket) return (std::filesystem::path{address.place}.parent_path() / "token").string();
  PHAROS_TRY_VOID(check_token_is_named(place));
  return place.token_file;
}

/// The new token is made here, and is encrypted with the present one, so that only this cluster can read it.
Result<void> rotate_token(const RotateOptions& options) {
  PHAROS_TRY(const std::string file, token_file_of(options.place));
  PHAROS_TRY(net::TokenRing tokens, process::read_token_ring(file));
  net::Key token;
  fill_random(token);
  const std::uint64_t now = net::seconds_now();
  const wire::RotateToken rotate{.sealed = net::seal(token, tokens.present()),
                                 .until = now + static_cast<std::uint64_t>(options.keep_hours * kSecondsOfHour)};
  PHAROS_TRY([[maybe_unused]] const auto done, ask(options.place, rotate));
  tokens.take(rotate.sealed, rotate.until, now);
  PHAROS_TRY_VOID(process::replace_token_ring(file, tokens));
  std::cout << "the cluster has a new token, in " << file << '\n'
            << "Copy this file to where earlier copies are. The nodes have the token, and have written it to the files "
               "that they were started with.\n";
  if (rotate.until > now) {
    std::cout << "The earlier token is valid for " << options.keep_hours << " h more." << std::endl;
  } else {
    std::cout << "The earlier token is not valid any more." << std::endl;
  }
  return {};
}

}  // namespace

void add_token(Commands& commands) {
  CLI::App& family =
      commands.add_family("token",
                          "Prints the path of the token of the cluster on this machine, or gives a cluster a "
                          "new token");
  const auto options = std::make_shared<RotateOptions>();
  CLI::App& command = commands.add_below(family, "rotate", "Gives a cluster that runs a new token",
                                         [options] { return status_of(rotate_token(*options)); });
  command
      .add_option("--keep", options->keep_hours,
                  "How long the earlier token stays valid, for nodes that are away and for copies (default: 24)")
      ->type_name("HOURS")
      ->check(CLI::Range(0.0, 8760.0).description(""));
  add_place_options(command, options->place);
  command.footer(
      "Nothing that runs is disturbed. With --keep 0 the earlier token is refused from now on: use it if somebody "
      "else\n"
      "knows it. Who knows it and has listened on the network meanwhile may know the new one, too.\n"
      "Examples:\n"
      "  pharos token rotate\n"
      "  pharos token rotate --keep 0\n"
      "  pharos token rotate --address 10.0.0.1:7400 --token-file ~/cluster.token");
  const auto address = std::make_shared<std::string>();
  commands.act_alone(family, [address] { return status_of(print_token(*address)); });
  family.add_option("--address", *address, "One of its nodes on this machine, if several clusters run here")
      ->type_name("unix:PATH");
  family.footer("Examples:\n  scp \"$(pharos token)\" 10.0.0.2:cluster.token\n  pharos token rotate");
}

}  // namespace pharos::console
