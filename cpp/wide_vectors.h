// Further versions of a function for x86-64 processors with AVX2 and AVX-512, chosen when the
// library is loaded. Each computes the same bits: nothing is contracted or reordered, there are
// only more lanes.
#pragma once

#include <cstdlib>  // says whether this is glibc

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__)
#define DOPE_WIDE_VECTORS __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define DOPE_WIDE_VECTORS
#endif

// For what a function with further versions calls: inlined, it has as many lanes as its caller.
#if defined(_MSC_VER)
#define DOPE_INLINE __forceinline
#else
#define DOPE_INLINE inline __attribute__((always_inline))
#endif
