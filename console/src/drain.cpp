#include <charconv>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>

#include "commands.hpp"

namespace pharos::console {
namespace {

struct DrainOptions {
  Place place;
  std::string node;
  std::uint32_t limit = 0;  // in seconds; 0: no limit
};

Result<void> drain_node(const DrainOptions& options) {
  std::uint64_t node = 0;
  const char* const end = options.node.data() + options.node.size();
  if (const auto read = std::from_chars(options.node.data(), end, node, 16);
      read.ec != std::errc{} || read.ptr != end) {
    return Error{ErrorCode::kInvalidArgument, "\"" + options.node + "\" is no node's ID",
                 "\"pharos list nodes\" shows them."};
  }
  PHAROS_TRY([[maybe_unused]] const auto done, ask(options.place, wire::DrainNode{NodeId{node}, options.limit * 1000}));
  std::cout << "it drains, and ends when nothing runs there any more; \"pharos list nodes\" shows whether it has"
            << std::endl;
  return {};
}

}  // namespace

void add_drain(Commands& commands) {
  const auto options = std::make_shared<DrainOptions>();
  CLI::App& command = commands.add("drain",
                                   "Empties a node: nothing new comes there, actors that may be restarted move, other "
                                   "actors and tasks finish",
                                   [options] { return status_of(drain_node(*options)); });
  command.add_option("node", options->node, "The node's ID")->required();
  command.add_option("--limit", options->limit, "Kills what still runs there after so many seconds (default: never)")
      ->type_name("SECONDS")
      ->check(CLI::Range(0, 4'000'000).description(""));
  add_place_options(command, options->place);
  command.footer(
      "Large values that other nodes need move to those nodes first.\n"
      "Examples:\n"
      "  pharos drain 7c5e5ebdca88fe48\n"
      "  pharos drain 7c5e5ebdca88fe48 --limit 600");
}

}  // namespace pharos::console
