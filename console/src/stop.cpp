#include <cstddef>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands.hpp"

namespace pharos::console {
namespace {

/// All nodes are connected before any is told to end: when the node with the head ends, the others end too, perhaps
/// before they could answer.
Result<void> stop_nodes(const Place& place) {
  PHAROS_TRY(const auto addresses, addresses_of(place, Here::kStarted));
  std::vector<NodeConnection> nodes;
  std::optional<Error> why;
  for (const std::string& address : addresses) {
    auto asked = NodeConnection::connect({.address = address, .token_file = place.token_file});
    if (asked) {
      nodes.push_back(*std::move(asked));
    } else {
      why = asked.error();
    }
  }
  std::size_t ended = 0;
  for (auto& node : nodes) {
    const auto rows = rows_of(node.ask(wire::EndNode{}));
    if (!rows || rows->rows.empty() || rows->rows.front().size() != 2) {
      if (!rows) why = rows.error();
      continue;
    }
    ++ended;
    const bool has_head = rows->rows.front()[1] == "yes";
    std::cout << "node " << rows->rows.front()[0] << " ends"
              << (has_head ? ", and with it the cluster: it has the head" : "") << std::endl;
  }
  if (ended == 0 && why) return *why;
  return {};
}

}  // namespace

void add_stop(Commands& commands) {
  const auto place = std::make_shared<Place>();
  CLI::App& command = commands.add(
      "stop",
      "Ends a node and all that it runs; the head's node ends the cluster. Without --address: your cluster on this "
      "machine",
      [place] { return status_of(stop_nodes(*place)); });
  add_place_options(command, *place);
  command.footer(
      "Examples:\n"
      "  pharos stop\n"
      "  pharos stop --address 10.0.0.1:7400 --token-file ~/cluster.token");
}

}  // namespace pharos::console
