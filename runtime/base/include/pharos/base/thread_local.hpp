#pragma once

/// thread_local for a variable that every call looks at: found without a function call, because libpharos is there when
/// the program starts. For pointers and flags: that space is small.
#define PHAROS_THREAD_LOCAL __attribute__((tls_model("initial-exec"))) thread_local
