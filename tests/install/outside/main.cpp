#include <iostream>
#include <string>

#include <boost/algorithm/string/case_conv.hpp>
#include <boost/asio.hpp>
#include <boost/version.hpp>

#include <pharos/pharos.hpp>

#include "counting.hpp"

int add(int a, int b) {
  return a + b;
}

// Runs a timer on this program's own Asio.
std::string shout(const std::string& word) {
  boost::asio::io_context context;
  boost::asio::steady_timer timer{context, std::chrono::milliseconds{1}};
  std::string loud;
  timer.async_wait([&](const boost::system::error_code& error) {
    if (!error) loud = boost::to_upper_copy(word);
  });
  context.run();
  return loud;
}

int main(int argc, char** argv) {
  std::cout << "boost " << BOOST_LIB_VERSION << ' ' << shout("here") << '\n';
  pharos::Runtime runtime{argc, argv};
  pharos::Ref<int> sum = runtime.submit<&add>(1, 2);
  std::cout << "task " << sum.get() << '\n';
  auto counter = runtime.spawn<Counter>(10);
  std::cout << "actor " << counter.call<&Counter::add>(5).get() << '\n';
  std::cout << "boost in a worker " << runtime.submit<&shout>(std::string{"there"}).get() << '\n';
}
