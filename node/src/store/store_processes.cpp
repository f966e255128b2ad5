#include "store/store_processes.hpp"

#include <utility>

namespace pharos::node {

void StoreProcesses::add(std::uint32_t table, std::shared_ptr<net::Peer> peer, std::shared_ptr<void> watch) {
  processes_.emplace(table, Process{std::move(peer), std::move(watch)});
}

bool StoreProcesses::remove(std::uint32_t table) {
  return !processes_.extract(table).empty();
}

std::optional<std::uint32_t> StoreProcesses::table_of(const net::Peer& peer) const {
  for (const auto& [table, process] : processes_) {
    if (process.peer.get() == &peer) return table;
  }
  return std::nullopt;
}

bool StoreProcesses::has(const Asker& asker) const {
  const auto process = processes_.find(asker.table);
  return process != processes_.end() && process->second.peer == asker.peer;
}

std::vector<std::uint32_t> StoreProcesses::tables() const {
  std::vector<std::uint32_t> all;
  for (const auto& [table, process] : processes_) all.push_back(table);
  return all;
}

void StoreProcesses::answer(const Asker& asker, const wire::Message& answer) const {
  if (has(asker)) asker.peer->respond(asker.request, answer);
}

void StoreProcesses::answer(const Asker& asker, Error error) const {
  if (has(asker)) asker.peer->respond(asker.request, std::move(error));
}

void StoreProcesses::ask_to_trim() const {
  for (const auto& [table, process] : processes_) process.peer->send(wire::TrimStore{});
}

}  // namespace pharos::node
