#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

/// The system calls that every call of an actor makes, without the C library's wrappers. The wrappers support thread
/// cancellation, which Pharos does not use, and cost as much as all other work of Pharos for a frame. With the thread
/// sanitizer the wrappers are used, because the sanitizer intercepts them. As with the wrappers, a failure is -1 and
/// errno, EINTR included.
namespace pharos::net {

#if defined(__SANITIZE_THREAD__)

inline ssize_t receive_bytes(int socket, void* to, std::size_t room, int flags) {
  return ::recv(socket, to, room, flags);
}
inline ssize_t send_bytes(int socket, const void* bytes, std::size_t count, int flags) {
  return ::send(socket, bytes, count, flags);
}
inline int wait_for_events(int epoll, epoll_event* events, int most, int milliseconds) {
  return ::epoll_wait(epoll, events, most, milliseconds);
}

#else

inline ssize_t receive_bytes(int socket, void* to, std::size_t room, int flags) {
  return ::syscall(SYS_recvfrom, socket, to, room, flags, nullptr, nullptr);
}
inline ssize_t send_bytes(int socket, const void* bytes, std::size_t count, int flags) {
  return ::syscall(SYS_sendto, socket, bytes, count, flags, nullptr, 0);
}
inline int wait_for_events(int epoll, epoll_event* events, int most, int milliseconds) {
  return static_cast<int>(::syscall(SYS_epoll_pwait, epoll, events, most, milliseconds, nullptr, 0));
}

#endif

}  // namespace pharos::net
