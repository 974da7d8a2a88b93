#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace thalweg::iceberg {

/// An HTTP server on the loopback that gives prepared answers, in order; what it was asked is kept.
/// Without an answer left it closes the connection. One request per connection.
class CannedServer {
 public:
  struct Request {
    std::string head;  ///< request line and headers as sent
    std::string body;
    std::string line() const { return head.substr(0, head.find("\r\n")); }
    /// Of a header, by its name as sent; "" when it is missing.
    std::string header(const std::string& name) const {
      const auto at = head.find("\r\n" + name + ": ");
      if (at == std::string::npos) return "";
      const auto begin = at + name.size() + 4;
      return head.substr(begin, head.find("\r\n", begin) - begin);
    }
  };

  CannedServer() {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~CannedServer() {
    stop_ = true;
    thread_.join();
    ::close(listener_);
  }

  std::string uri() const { return "http://127.0.0.1:" + std::to_string(port_); }

  /// An answer as it goes over the wire; "" closes the connection, "hang" never answers.
  void Raw(std::string answer) {
    std::lock_guard lock(mutex_);
    answers_.push_back(std::move(answer));
  }
  void Answer(int status, const std::string& body, const std::string& headers = "") {
    Raw("HTTP/1.1 " + std::to_string(status) + " Said\r\nConnection: close\r\n" + headers +
        "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  std::vector<Request> requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void Serve() {
    while (!stop_) {
      pollfd waiting{listener_, POLLIN, 0};
      if (::poll(&waiting, 1, 20) <= 0) continue;
      const int connection = ::accept(listener_, nullptr, nullptr);
      if (connection >= 0) Handle(connection);
      ::close(connection);
    }
  }

  bool Receive(int connection, std::string* text) {
    char buffer[4096];
    pollfd waiting{connection, POLLIN, 0};
    while (::poll(&waiting, 1, 20) == 0) {
      if (stop_) return false;
    }
    const ssize_t got = ::recv(connection, buffer, sizeof buffer, 0);
    if (got > 0) text->append(buffer, static_cast<size_t>(got));
    return got > 0;
  }

  void Handle(int connection) {
    std::string text;
    while (text.find("\r\n\r\n") == std::string::npos) {
      if (!Receive(connection, &text)) return;
    }
    const auto end = text.find("\r\n\r\n");
    Request request{text.substr(0, end + 2), text.substr(end + 4)};
    const std::string length = request.header("Content-Length");
    while (!length.empty() && request.body.size() < std::stoul(length)) {
      if (!Receive(connection, &request.body)) return;
    }
    std::string answer;
    {
      std::lock_guard lock(mutex_);
      requests_.push_back(std::move(request));
      if (!answers_.empty()) {
        answer = std::move(answers_.front());
        answers_.pop_front();
      }
    }
    if (answer == "hang") {
      while (!stop_) {
        char byte;
        pollfd waiting{connection, POLLIN, 0};
        if (::poll(&waiting, 1, 20) > 0 && ::recv(connection, &byte, 1, 0) <= 0) return;
      }
      return;
    }
    size_t sent = 0;
    while (sent < answer.size()) {
      const ssize_t count =
          ::send(connection, answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return;
      sent += static_cast<size_t>(count);
    }
  }

  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  std::deque<std::string> answers_;
  std::vector<Request> requests_;
  std::thread thread_;
};

}  // namespace thalweg::iceberg
