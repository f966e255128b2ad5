// A class is tested as it is; as an actor, in a cluster that the test starts. Any test framework will do.

#include <cstdlib>
#include <iostream>
#include <string_view>

#include <pharos/pharos.hpp>

#include "word_counter.hpp"

void check(bool holds, std::string_view what) {
  if (holds) return;
  std::cerr << "failed: " << what << '\n';
  std::exit(1);
}

int main(int argc, char** argv) {
  WordCounter counter;
  counter.add("one two two");
  check(counter.count("two") == 2, "words are counted");
  check(counter.count("three") == 0, "other words do not come");

  pharos::Runtime runtime{argc, argv};
  const auto actor = runtime.spawn<WordCounter>();
  actor.call<&WordCounter::add>("one two two");
  check(actor.call<&WordCounter::count>("two").get() == 2, "the actor counts words, too");
}
