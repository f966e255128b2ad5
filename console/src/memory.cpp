#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <pharos/base/byte_count.hpp>

#include "commands.hpp"
#include "rows.hpp"
#include "table.hpp"

namespace pharos::console {
namespace {

constexpr std::size_t kShown = 40;  // objects in the table

struct MemoryOptions {
  Place place;
  std::string node{};  // empty: all nodes
  std::string format = "text";
};

struct Memory {
  RowsOfNodes nodes;
  RowsOfNodes objects;  // the largest first
};

using Row = std::vector<std::string>;

std::uint64_t number(const std::string& cell) {
  return std::strtoull(cell.c_str(), nullptr, 10);
}
std::string bytes(const std::string& cell) {
  return to_string(ByteCount{number(cell)});
}

// Cells of a row of the list "memory", and of the list "objects".
enum MemoryColumn : std::size_t { kNode, kCapacity, kUsed, kIdle, kOnDisk, kCount, kMemoryColumns };
enum ObjectColumn : std::size_t { kAt, kObject, kBytes, kWhere, kOwner, kKeptBy, kComesFrom, kObjectColumns };

Result<Memory> ask_memory(const MemoryOptions& options) {
  PHAROS_TRY(NodeConnection asked, NodeConnection::connect(options.place));
  PHAROS_TRY(std::set<NodeId> nodes, nodes_of_cluster(asked));
  if (!options.node.empty()) {
    std::erase_if(nodes, [&](NodeId node) { return to_string(node) != options.node; });
    if (nodes.empty()) {
      return Error{ErrorCode::kNotFound, "there is no node " + options.node, "pharos list nodes says which there are."};
    }
  }
  Memory memory;
  PHAROS_TRY(memory.nodes,
             rows_of_each(asked, nodes, {.table = "memory", .filters = {}, .limit = kAllRows}, kMemoryColumns));
  PHAROS_TRY(memory.objects,
             rows_of_each(asked, nodes, {.table = "objects", .filters = {}, .limit = kAllRows}, kObjectColumns));
  std::ranges::stable_sort(memory.objects.rows.rows, std::greater{},
                           [](const Row& row) { return number(row[kBytes]); });
  return memory;
}

void print_sums(const std::vector<Row>& nodes) {
  if (std::ranges::all_of(nodes, [](const Row& node) { return number(node[kCapacity]) == 0; })) {
    std::cout << "The object store is empty: nobody has used it.\n";
  } else if (nodes.size() == 1) {
    const Row& node = nodes.front();
    std::cout << "Memory   " << bytes(node[kUsed]) << " of " << bytes(node[kCapacity]) << " in use";
    if (number(node[kIdle]) != 0)
      std::cout << ", " << bytes(node[kIdle]) << " free and not yet given back to the system";
    std::cout << "\nDisk     " << bytes(node[kOnDisk]) << "\nObjects  " << node[kCount] << '\n';
  } else {
    Table table{{"NODE", "MEMORY IN USE", "OF", "DISK", "OBJECTS"}};
    for (const Row& node : nodes) {
      const bool is_used = number(node[kCapacity]) != 0;
      table.add({node[kNode], bytes(node[kUsed]), is_used ? bytes(node[kCapacity]) : "-", bytes(node[kOnDisk]),
                 node[kCount]});
    }
    table.print();
  }
}

void print_objects(const std::vector<Row>& objects, bool names_nodes, std::uint64_t count) {
  if (objects.empty()) return;
  Row heads{"SIZE", "WHERE", "OWNER", "KEPT ALIVE BY", "COMES FROM"};
  if (names_nodes) heads.insert(heads.begin(), "NODE");
  Table table{std::move(heads)};
  const std::size_t shown = std::min(objects.size(), kShown);
  for (std::size_t i = 0; i < shown; ++i) {
    const Row& object = objects[i];
    const bool let_go = object[kOwner].empty();
    const std::string others = !object[kKeptBy].empty() ? object[kKeptBy] : let_go ? "nobody" : "its owner";
    Row cells{bytes(object[kBytes]), object[kWhere], let_go ? "let go" : object[kOwner], others, object[kComesFrom]};
    if (names_nodes) cells.insert(cells.begin(), object[kAt]);
    table.add(std::move(cells));
  }
  std::cout << '\n';
  table.print();
  if (count > shown) std::cout << "… and " << count - shown << " more\n";
}

Result<void> print_memory(const MemoryOptions& options) {
  PHAROS_TRY(const Memory memory, ask_memory(options));
  const auto& nodes = memory.nodes.rows.rows;
  const std::string& silent = memory.objects.silent;
  if (nodes.empty() && !silent.empty()) return nodes_are_silent(silent);
  if (options.format == "json") {
    std::cout << "{\"nodes\": ";
    print_json(memory.nodes.rows);
    std::cout << ", \"objects\": ";
    print_json(memory.objects.rows);
    std::cout << "}\n";
  } else {
    std::uint64_t count = 0;
    for (const Row& node : nodes) count += number(node[kCount]);
    print_sums(nodes);
    print_objects(memory.objects.rows.rows, nodes.size() > 1, count);
  }
  if (!silent.empty()) return nodes_are_silent(silent);
  return {};
}

}  // namespace

void add_memory(Commands& commands) {
  const auto options = std::make_shared<MemoryOptions>();
  CLI::App& command =
      commands.add("memory", "Shows the objects in the object stores of all nodes, and which processes keep them",
                   [options] { return status_of(print_memory(*options)); });
  command.add_option("--node", options->node, "Only this node")->type_name("ID");
  add_format_option(command, options->format);
  add_place_options(command, options->place);
  command.footer(
      "Of each node the 1000 largest objects are known.\n"
      "Examples:\n"
      "  pharos memory\n"
      "  watch -n 1 pharos memory\n"
      "  pharos memory --format json | jq '[.objects[].bytes] | add'");
}

}  // namespace pharos::console
