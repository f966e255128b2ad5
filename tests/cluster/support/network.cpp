#include "network.hpp"

#include <signal.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace pharos::cluster {
namespace {

/// A tc filter that drops packets to the address of this place and leaves all other packets to the next filter.
std::string dropping_packets_to(int place) {
  const unsigned address = (10U << 24U) + (77U << 16U) + 10U + static_cast<unsigned>(place);
  return "bpf da bytecode '4,32 0 0 30,21 0 1 " + std::to_string(address) + ",6 0 0 2,6 0 0 4294967295'";
}

/// A tc filter that drops this share of all packets, at random.
std::string dropping_some(double share) {
  const auto most = static_cast<std::uint32_t>(share * 4294967295.0);
  // A load from the address 4294963256 (SKF_AD_OFF + SKF_AD_RANDOM) gives a random number.
  return "bpf da bytecode '4,32 0 0 4294963256,37 1 0 " + std::to_string(most) + ",6 0 0 2,6 0 0 4294967295'";
}

std::string port_of(int place) {
  return "v" + std::to_string(place);
}

/// Reads the line of `tc -s`: "Sent 1234 bytes 12 pkt (dropped 3, overlimits 4 requeues 0)".
Network::Count count_in(const std::string& statistics) {
  Network::Count count;
  const std::size_t begin = statistics.find("Sent ");
  if (begin == std::string::npos ||
      std::sscanf(statistics.c_str() + begin,
                  "Sent %*u bytes %" SCNu64 " pkt (dropped %" SCNu64 ", overlimits %" SCNu64, &count.sent,
                  &count.dropped, &count.delayed) != 3) {
    throw std::runtime_error{"tc has counted nothing: " + statistics};
  }
  return count;
}

}  // namespace

bool Network::can_be_made() {
  return ::geteuid() == 0 && std::system("unshare -n true 2>/dev/null") == 0;
}

Network::Network(int places, const Delay& delay)
    : outside_{new_namespace("ip link add br0 type bridge && ip addr add 10.77.0.1/24 dev br0 && ip link set br0 up")} {
  for (int place = 1; place <= places; ++place) {
    places_.push_back(new_namespace("true"));
    const std::string pid = std::to_string(places_.back()->pid());
    const std::string port = port_of(place);
    if (delay.wire.empty()) {
      run_outside("ip link add " + port + " type veth peer name eth0 netns " + pid);
    } else {
      wires_.push_back(std::make_unique<ChildProgram>(
          "/usr/bin/nsenter",
          std::vector<std::string>{"-t", std::to_string(outside_->pid()), "-n", delay.wire, port, pid,
                                   std::to_string(delay.middle.count()), std::to_string(delay.jitter.count()),
                                   std::to_string(delay.seed + static_cast<std::uint32_t>(place))}));
      wires_.back()->next_line();
    }
    run_outside("ip link set " + port + " master br0 up && tc qdisc add dev " + port + " clsact && nsenter -t " + pid +
                " -n sh -c 'ip addr add " + address_of(place) + "/24 dev eth0 && ip link set eth0 up'");
  }
}

std::unique_ptr<ChildProgram> Network::new_namespace(const std::string& commands) {
  auto holder = std::make_unique<ChildProgram>(
      "/usr/bin/unshare",
      std::vector<std::string>{"-n", "/bin/sh", "-c",
                               "ip link set lo up && " + commands + " && echo ready && exec sleep 3600"});
  holder->next_line();
  return holder;
}

std::string Network::run_outside(const std::string& commands) const {
  ChildProgram shell{"/usr/bin/nsenter", {"-t", std::to_string(outside_->pid()), "-n", "/bin/sh", "-c", commands}};
  const auto end = shell.wait();
  if (end.status != 0) throw std::runtime_error{commands + ": " + end.error};
  return end.output;
}

std::unique_ptr<ChildProgram> Network::start(int place, const std::string& program, std::vector<std::string> arguments,
                                             const ChildProgram::Variables& variables) const {
  const auto& holder = places_.at(static_cast<std::size_t>(place - 1));
  arguments.insert(arguments.begin(), {"-t", std::to_string(holder->pid()), "-n", program});
  return std::make_unique<ChildProgram>("/usr/bin/nsenter", std::move(arguments), variables);
}

void Network::cut_way(int from, int to) const {
  run_outside("tc filter add dev " + port_of(from) + " ingress " + dropping_packets_to(to));
}

void Network::cut_both_ways(int one, int other) const {
  cut_way(one, other);
  cut_way(other, one);
}

void Network::cut_off(int place) const {
  for (int other = 1; other <= places(); ++other) {
    if (other != place) cut_both_ways(place, other);
  }
}

void Network::lose(double share) const {
  for (int place = 1; place <= places(); ++place) {
    run_outside("tc filter add dev " + port_of(place) + " ingress " + dropping_some(share));
  }
}

void Network::bound(int place, const std::string& rate) const {
  const std::string queue = " root tbf rate " + rate + " burst 32kbit latency 400ms";
  run_outside("tc qdisc add dev " + port_of(place) + queue);
  run_outside("nsenter -t " + std::to_string(places_.at(static_cast<std::size_t>(place - 1))->pid()) +
              " -n tc qdisc add dev eth0" + queue);
}

Network::Count Network::count_lost() const {
  Count all;
  for (int place = 1; place <= places(); ++place) {
    const Count its = count_in(run_outside("tc -s qdisc show dev " + port_of(place) + " clsact"));
    all.sent += its.sent;
    all.dropped += its.dropped;
  }
  return all;
}

Network::Count Network::count_bound(int place) const {
  return count_in(run_outside("tc -s qdisc show dev " + port_of(place) + " root"));
}

Network::Carried Network::count_carried() const {
  Carried all;
  std::chrono::milliseconds times{};
  for (const auto& wire : wires_) {
    wire->kill(SIGUSR1);
    std::istringstream numbers{wire->next_line()};
    std::uint64_t packets = 0;
    std::uint64_t overtaken = 0;
    std::uint64_t milliseconds = 0;
    if (!(numbers >> packets >> overtaken >> milliseconds)) throw std::runtime_error{"a wire does not count"};
    all.packets += packets;
    all.overtaken += overtaken;
    times += std::chrono::milliseconds{milliseconds};
  }
  if (all.packets != 0) all.mean = times / all.packets;
  return all;
}

void Network::heal() const {
  std::string commands = "true";
  for (int place = 1; place <= places(); ++place) {
    commands += "; tc filter del dev " + port_of(place) + " ingress";
  }
  run_outside(commands);
}

}  // namespace pharos::cluster
