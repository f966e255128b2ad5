// A program with a library and files of its own, which the node with the resource "b" does not have: `carried [MODE]`.
// It prints lines that tests look for, and "done" at its end. After an exception it prints "TYPE: message" and ends
// with status 1. The mode "removes" removes its library before a node has asked for it.

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include <pharos/pharos.hpp>

#include "report.hpp"

std::string path_of_carried_library();

namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using pharos::cluster::say;

class Reader {
 public:
  std::string library() { return path_of_carried_library(); }
  std::string folder() { return fs::current_path(); }
  std::string read(const std::string& path) {
    std::ifstream file{path};
    return file ? std::string{std::istreambuf_iterator<char>{file}, {}} : "no file";
  }
};

template <class T>
T wait_for(const pharos::Ref<T>& ref) {
  return ref.get(pharos::Deadline::after(25s, std::chrono::steady_clock::now()));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  return pharos::cluster::report([&] {
    pharos::Runtime runtime;
    if (mode == "removes") fs::remove(path_of_carried_library());
    const auto far = runtime.spawn<Reader>({.name = "reader", .resources = {{"b", 1}}});
    say("loads " + wait_for(far.call<&Reader::library>()));
    say("in " + wait_for(far.call<&Reader::folder>()));
    say("reads " + wait_for(far.call<&Reader::read>("data/words")));
  });
}
