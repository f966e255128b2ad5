#include "simulator/kernel.hpp"

#include <chrono>
#include <utility>

namespace pharos::simulator {
namespace {

using namespace std::chrono_literals;

constexpr Duration kReapMax = 3ms;  // longest time until a parent learns that its child has ended

}  // namespace

Kernel::~Kernel() {
  for (Process& process : processes_) process.kill("ends with its cluster");
  world_.forget_events();
}

Process& Kernel::start(const std::string& what, Process* parent, Duration loading, Compose compose) {
  const pid_t number = ++last_number_;
  Process& process = processes_.emplace_back(world_, network_, what + '.' + std::to_string(number), number, parent);
  world_.note(process.name(), "starts");
  alive_.emplace(number, &process);
  process.on_end([this, &process] {
    alive_.erase(process.number());
    world_.after(world_.lots().between(Duration{0}, kReapMax), [&process] { tell_parent(process); });
  });
  process.at(world_.now() + loading,
             [&process, compose = std::move(compose)]() mutable { process.start(compose(process)); });
  return process;
}

void Kernel::tell_parent(const Process& child) {
  Process* parent = child.parent();
  while (parent != nullptr && !parent->alive()) parent = parent->parent();
  if (parent == nullptr) return;
  parent->soon([parent, &child] { parent->program()->on_child_ended(child.number(), child.status()); });
}

void Kernel::kill(pid_t process) {
  world_.at(world_.now(), [this, process] {
    if (const auto found = alive_.find(process); found != alive_.end()) found->second->kill("is killed by its node");
  });
}

std::vector<Process*> Kernel::alive(std::string_view what) const {
  std::vector<Process*> all;
  for (const auto& [number, process] : alive_) {
    if (process->what() == what) all.push_back(process);
  }
  return all;
}

}  // namespace pharos::simulator
