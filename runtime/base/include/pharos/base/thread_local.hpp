#pragma once

/// thread_local for a variable that every call reads. The access needs no function call, which is possible because
/// libpharos is loaded when the program starts. The memory for such variables is small: use it for pointers and flags.
#define PHAROS_THREAD_LOCAL __attribute__((tls_model("initial-exec"))) thread_local
