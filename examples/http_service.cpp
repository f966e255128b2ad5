// Serves HTTP with Boost.Beast, from actors: each request is a call, for which a coroutine of Asio waits. No thread
// waits for an actor.
#include <csignal>
#include <cstdint>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <boost/asio.hpp>
#include <boost/beast.hpp>

#include <pharos/asio/async_get.hpp>
#include <pharos/pharos.hpp>

#include "command_line.hpp"

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;

/// Counts by name. Each name belongs to one of several counters, so requests for different names run side by side.
class Counters {
 public:
  std::int64_t add(const std::string& name, std::int64_t amount) { return counts_[name] += amount; }
  std::int64_t count(const std::string& name) const {
    const auto found = counts_.find(name);
    return found == counts_.end() ? 0 : found->second;
  }

 private:
  std::map<std::string, std::int64_t> counts_;
};

class Service {
 public:
  explicit Service(pharos::Runtime& runtime) {
    for (int i = 0; i < 4; ++i) shards_.push_back(runtime.spawn<Counters>({.max_restarts = -1}));
  }

  /// GET /name says how much was counted, and POST /name adds the number in the body.
  asio::awaitable<http::response<http::string_body>> answer(const http::request<http::string_body>& request) const {
    http::response<http::string_body> response{http::status::ok, request.version()};
    response.keep_alive(request.keep_alive());
    try {
      const std::string name{request.target().substr(1)};
      const auto& shard = shards_[std::hash<std::string>{}(name) % shards_.size()];
      const auto count = request.method() == http::verb::post
                             ? shard.call<&Counters::add>(name, std::int64_t{std::stoll(request.body())})
                             : shard.call<&Counters::count>(name);
      response.body() = std::to_string(co_await pharos::async_get(count, asio::use_awaitable)) + '\n';
    } catch (const std::logic_error&) {
      response.result(http::status::bad_request);
      response.body() = "the body must be a number\n";
    } catch (const pharos::Exception& error) {
      response.result(http::status::service_unavailable);
      response.body() = std::string{error.what()} + '\n';
    }
    response.prepare_payload();
    co_return response;
  }

 private:
  std::vector<pharos::Actor<Counters>> shards_;
};

asio::awaitable<void> converse(tcp::socket socket, const Service& service) {
  boost::beast::flat_buffer buffer;
  for (bool more = true; more;) {
    http::request<http::string_body> request;
    boost::system::error_code ended;
    co_await http::async_read(socket, buffer, request, asio::redirect_error(asio::use_awaitable, ended));
    if (ended) co_return;  // the client has closed the connection, or sent no HTTP
    const auto response = co_await service.answer(request);
    co_await http::async_write(socket, response, asio::redirect_error(asio::use_awaitable, ended));
    more = !ended && response.keep_alive();
  }
}

asio::awaitable<void> serve(tcp::acceptor& acceptor, const Service& service) {
  for (;;) {
    boost::system::error_code closed;
    tcp::socket socket = co_await acceptor.async_accept(asio::redirect_error(asio::use_awaitable, closed));
    if (closed == asio::error::operation_aborted) co_return;
    if (!closed) asio::co_spawn(acceptor.get_executor(), converse(std::move(socket), service), asio::detached);
  }
}

/// Sends requests over one connection, and returns what the last answer says.
asio::awaitable<std::string> ask(tcp::endpoint server, std::uint64_t requests) {
  tcp::socket socket{co_await asio::this_coro::executor};
  co_await socket.async_connect(server, asio::use_awaitable);
  boost::beast::flat_buffer buffer;
  std::string last;
  for (std::uint64_t i = 0; i < requests; ++i) {
    http::request<http::string_body> request{http::verb::post, "/visits", 11};
    request.body() = "1";
    request.prepare_payload();
    co_await http::async_write(socket, request, asio::use_awaitable);
    http::response<http::string_body> response;
    co_await http::async_read(socket, buffer, response, asio::use_awaitable);
    last = response.body();
  }
  co_return last;
}

constexpr const char* kUsage = R"(Serves HTTP from actors.

usage: pharos-http-service [--port PORT | --requests N]

  --port PORT   listens at this port of this machine (8080) until Ctrl-C
  --requests N  sends itself so many requests, and ends

  pharos-http-service &
  curl -d 5 localhost:8080/visits
)";

int main(int argc, char** argv) {
  std::uint64_t port = 8080;
  std::uint64_t requests = 0;
  return examples::run_program(argc, argv, kUsage, {{"--port", &port}, {"--requests", &requests}},
                               [&](pharos::Runtime& runtime) {
                                 const Service service{runtime};
                                 asio::io_context context{1};
                                 const auto listens_at = static_cast<std::uint16_t>(requests != 0 ? 0 : port);
                                 tcp::acceptor acceptor{context, {asio::ip::address_v4::loopback(), listens_at}};
                                 asio::co_spawn(context, serve(acceptor, service), asio::detached);
                                 asio::signal_set interrupted{context, SIGINT, SIGTERM};
                                 interrupted.async_wait([&](auto, auto) { context.stop(); });
                                 if (requests == 0) {
                                   std::cout << "listening at http://" << acceptor.local_endpoint() << std::endl;
                                 } else {
                                   asio::co_spawn(context, ask(acceptor.local_endpoint(), requests),
                                                  [&](const std::exception_ptr& failed, const std::string& last) {
                                                    context.stop();
                                                    if (failed) std::rethrow_exception(failed);
                                                    std::cout << requests << " requests; the last answer was " << last;
                                                  });
                                 }
                                 context.run();
                                 return 0;
                               });
}
