#include <cctype>
#include <iostream>
#include <string>
#include <vector>

#include <pharos/pharos.hpp>

#include "word_counter.hpp"

// As a task, this function runs in another process: on this machine, or on any node of a cluster.
std::string in_small_letters(std::string line) {
  for (char& each : line) each = static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
  return line;
}

int main(int argc, char** argv) {
  // Starts a cluster of this machine alone, which ends with the program. With --pharos-address=HOST:PORT the program
  // joins the cluster there instead.
  pharos::Runtime runtime{argc, argv};

  const std::vector<std::string> lines{"To be or not to be", "That is the question"};
  std::vector<pharos::Ref<std::string>> small;  // results that may still be on their way
  for (const std::string& line : lines) small.push_back(runtime.submit<&in_small_letters>(line));

  const auto counter = runtime.spawn<WordCounter>();
  for (const auto& line : small) counter.call<&WordCounter::add>(line);
  std::cout << "\"be\" comes " << counter.call<&WordCounter::count>("be").get() << " times\n";
}
