#pragma once

/// Marks what libpharos.so offers to programs. Everything else is hidden.
#define PHAROS_API __attribute__((visibility("default")))
