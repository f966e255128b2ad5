// A program whose workers write to their standard streams: `writing_program few|many|long`.

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>

#include <pharos/pharos.hpp>

namespace {

class Writer {
 public:
  void write_few() {
    std::cout << "one\ntwo\n";
    std::printf("three\n");
    std::fprintf(stderr, "four\n");
    std::cout << "no line's end";
  }
  /// `lines` lines of 100 bytes, numbered.
  void write_many(int lines) {
    for (int i = 0; i < lines; ++i) std::printf("%08d %.*s\n", i, 90, std::string(90, '.').c_str());
  }
  void write_long() { std::cout << std::string(300'000, 'l') << "\nshort\n"; }
};

}  // namespace

int main(int, char** argv) {
  const std::string mode = argv[1];
  {
    pharos::Runtime runtime;
    const auto writer = runtime.spawn<Writer>(pharos::ActorOptions{.name = "scribe"});
    if (mode == "few") writer.call<&Writer::write_few>().get();
    if (mode == "many") writer.call<&Writer::write_many>(100'000).get();
    if (mode == "unwaited") [[maybe_unused]]
      const auto dropped = writer.call<&Writer::write_many>(100'000);
    if (mode == "long") writer.call<&Writer::write_long>().get();
  }
  std::cout << "the Runtime has ended" << std::endl;
}
