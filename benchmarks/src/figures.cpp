#include "figures.hpp"

#include <sys/utsname.h>

#include <cstdio>
#include <fstream>
#include <thread>

namespace bench {
namespace {

std::string cpu_model() {
  std::ifstream file{"/proc/cpuinfo"};
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

double memory_gib() {
  std::ifstream file{"/proc/meminfo"};
  std::string name;
  double kib = 0;
  file >> name >> kib;
  return kib / (1 << 20);
}

}  // namespace

void Report::add(const std::string& name, double value, const std::string& unit) {
  if (!wants(name)) return;
  figures_.push_back({name, value, unit});
  std::printf("%-34s %14.3f %s\n", name.c_str(), value, unit.c_str());
  std::fflush(stdout);
}

bool Report::write_json(const std::string& path) const {
  std::ofstream file{path};
  utsname system{};
  ::uname(&system);
  file << "{\"machine\": {\"cpu\": \"" << cpu_model() << "\", \"cpus\": " << std::thread::hardware_concurrency()
       << ", \"memory_gib\": " << memory_gib() << ", \"kernel\": \"" << system.release << "\"},\n \"figures\": [";
  const char* separator = "\n";
  for (const Figure& figure : figures_) {
    file << separator << "  {\"name\": \"" << figure.name << "\", \"value\": " << figure.value << ", \"unit\": \""
         << figure.unit << "\"}";
    separator = ",\n";
  }
  file << "\n]}\n";
  return static_cast<bool>(file.flush());
}

}  // namespace bench
