#include "memory.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <map>
#include <optional>
#include <vector>

#include <pharos/async/async_group.hpp>
#include <pharos/base/byte_count.hpp>
#include <pharos/net/address.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/net/reactor.hpp>
#include <pharos/net/socket_link.hpp>
#include <pharos/process/run_folder.hpp>
#include <pharos/process/token.hpp>

namespace pharos::console {
namespace {

using namespace std::chrono_literals;

constexpr auto kAnswerTime = 10s;
constexpr std::size_t kShown = 40;  // objects

// ---- Asking

class Silent final : public net::Peer::Owner {
 public:
  void on_message(net::Peer&, net::Parcel, std::optional<std::uint64_t>) override {}
  void on_peer_closed(net::Peer&, const Error&) override {}
};

/// Of a cluster that runs here.
Result<std::string> only_address() {
  if (const char* const given = std::getenv("PHAROS_ADDRESS")) return std::string{given};
  PHAROS_TRY(const std::string base, process::ensure_base_folder());
  process::sweep_run_folders(base);
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator{base, error}) {
    if (std::filesystem::exists(entry.path() / "node.sock"))
      found.push_back("unix:" + (entry.path() / "node.sock").string());
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    return Error{ErrorCode::kNotFound, "no cluster of this user runs on this machine, as far as " + base + " shows",
                 "Name a node's Unix socket: pharos memory --address unix:/path/node.sock"};
  }
  std::string all;
  for (const std::string& each : found) all += "\n  pharos memory --address " + each;
  return Error{ErrorCode::kInvalidArgument, "several clusters run on this machine", "Choose one:" + all};
}

Result<wire::InspectedStore> ask(const std::string& address) {
  PHAROS_TRY(const net::Address place, net::parse_address(address));
  if (!place.unix_socket) {
    return Error{ErrorCode::kInvalidArgument, address + " is no Unix socket",
                 "Ask on the node's own machine: pharos memory --address unix:/path/node.sock"};
  }
  const auto folder = std::filesystem::path{place.place}.parent_path();
  PHAROS_TRY(const net::Key token, process::read_token(folder / "token"));
  const auto deadline = async::Deadline::after(kAnswerTime, std::chrono::steady_clock::now());
  PHAROS_TRY(Fd socket, net::connect_to(place, deadline));
  PHAROS_TRY([[maybe_unused]] const auto node, net::initiate(socket.get(), token, {net::Role::kDriver, 0}, deadline));
  net::Reactor reactor;
  Silent owner;
  const auto link = net::SocketLink::make(reactor, std::move(socket), net::Descriptors::kRefused);
  const auto peer = net::Peer::make(reactor, link, owner);
  link->start(peer);
  std::optional<Result<net::Parcel>> answer;
  async::AsyncGroup group{reactor};
  const auto wait_for_answer = [](std::shared_ptr<net::Peer> from, std::optional<Result<net::Parcel>>* to,
                                  async::Deadline until) -> async::Async<void> {
    wire::Message question = wire::Inspect{};
    to->emplace(co_await from->request(std::move(question), std::vector<Fd>{}, until));
  };
  group.spawn(wait_for_answer(peer, &answer, deadline));
  while (!answer) reactor.poll_one(deadline);
  peer->close();
  if (!*answer) return std::move(*answer).error();
  const auto* const inspected = std::get_if<wire::Inspected>(&(*answer)->message);
  if (inspected == nullptr) return Error{ErrorCode::kInternal, "the node gave an answer that fits no question"};
  return inspected->store;
}

// ---- Showing

std::string bytes(std::uint64_t count) {
  return to_string(ByteCount{count});
}

std::string where(const wire::InspectedObject& object) {
  if (!object.sealed) return "being written";
  if (object.copied) return object.out ? "other node" : "memory, a copy";
  return object.out ? "disk" : "memory";
}

class Table {
 public:
  explicit Table(std::vector<std::string> heads) { add(std::move(heads)); }
  void add(std::vector<std::string> cells) {
    widths_.resize(std::max(widths_.size(), cells.size()));
    for (std::size_t i = 0; i < cells.size(); ++i) widths_[i] = std::max(widths_[i], cells[i].size());
    rows_.push_back(std::move(cells));
  }
  void print() const {
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (i + 1 == row.size()) {
          std::cout << row[i];
        } else {
          std::cout << std::left << std::setw(static_cast<int>(widths_[i]) + 2) << row[i];
        }
      }
      std::cout << '\n';
    }
  }

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
};

void show(const wire::InspectedStore& store) {
  if (store.capacity == 0) {
    std::cout << "The object store is empty: nobody has used it.\n";
    return;
  }
  std::cout << "Memory   " << bytes(store.used) << " of " << bytes(store.capacity) << " in use";
  if (store.idle != 0) std::cout << ", " << bytes(store.idle) << " free and not yet the system's";
  std::cout << "\nDisk     " << bytes(store.on_disk) << '\n';
  std::cout << "Objects  " << store.objects << "\n";
  if (store.largest.empty()) return;

  std::map<CallerId, std::string> names;
  for (const wire::InspectedProcess& process : store.processes) {
    std::string& name = names[process.caller];
    name = process.label.empty() ? to_string(process.caller) : process.label.substr(process.label.rfind('/') + 1);
    if (process.pid != 0) name += " (pid " + std::to_string(process.pid) + ")";
  }
  const auto name_of = [&](CallerId caller) {
    const auto found = names.find(caller);
    return found == names.end() ? to_string(caller) : found->second;
  };
  Table table{{"SIZE", "WHERE", "OWNER", "KEPT ALIVE BY", "COMES FROM"}};
  for (std::size_t i = 0; i < std::min(store.largest.size(), kShown); ++i) {
    const wire::InspectedObject& object = store.largest[i];
    std::string owner = "let go";
    std::string others;
    for (const wire::ObjectUse& use : object.uses) {
      if (use.holds) {
        owner = name_of(use.process);
      } else {
        if (!others.empty()) others += ", ";
        others += name_of(use.process) + (use.reads ? " reads it" : "");
      }
    }
    if (others.empty()) others = owner == "let go" ? "nobody" : "its owner";
    table.add({bytes(object.size), where(object), owner, others, object.label});
  }
  std::cout << '\n';
  table.print();
  if (store.objects > kShown) std::cout << "… and " << store.objects - kShown << " more\n";
}

}  // namespace

int print_memory(const std::string& address) {
  const auto place = address.empty() ? only_address() : Result<std::string>{address};
  const auto store = place ? ask(*place) : Result<wire::InspectedStore>{place.error()};
  if (!store) {
    std::cerr << "pharos: " << store.error().to_string() << '\n';
    return 1;
  }
  show(*store);
  return 0;
}

}  // namespace pharos::console
