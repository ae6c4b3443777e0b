/* What the kernels share: numbers, vectors of them, and the names of functions.
 *
 * A kernel is compiled once per precision and instruction set: DOUBLE selects the precision, SUFFIX ends the names of
 * its functions. There are no allocations and no global state: the caller provides all memory. Every sum is taken in
 * an order that does not depend on the number of threads.
 */
#ifndef CHOQOLATE_KERNEL_H
#define CHOQOLATE_KERNEL_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __AVX__
#include <immintrin.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif

#ifdef DOUBLE
typedef double real;
typedef int64_t bits;
#else
typedef float real;
typedef int32_t bits;
#endif

#ifndef VECTOR_BYTES
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#endif
#ifdef DOUBLE
#define LANES (VECTOR_BYTES / 8)
#else
#define LANES (VECTOR_BYTES / 4)
#endif

#ifndef PARALLEL_FROM
#define PARALLEL_FROM 2e6 /* multiplications that are worth waking other threads for */
#endif

#define QUAD 4 /* vectors whose lanes are summed at a time */

#define JOIN(a, b) a##_##b
#define NAMED(name, suffix) JOIN(name, suffix)
#define EXPORT(name) NAMED(name, SUFFIX)
#define INLINE static inline __attribute__((always_inline))

typedef ptrdiff_t index;
typedef real vec __attribute__((vector_size(VECTOR_BYTES)));
typedef bits ivec __attribute__((vector_size(VECTOR_BYTES)));
typedef real loose __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));

INLINE index smaller(index a, index b) { return a < b ? a : b; }
INLINE index larger(index a, index b) { return a > b ? a : b; }
INLINE index parts_of(index n, index size) { return (n + size - 1) / size; }
INLINE index round_up(index n) { return parts_of(n, 16) * 16; } /* whole cache lines in both precisions */

INLINE int this_thread(void) {
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

INLINE real sum_lanes(vec x) {
    real total = 0;
    for (int i = 0; i < LANES; i++) total += x[i];
    return total;
}

/* Within each 16 bytes, which processors shuffle fastest: the even lanes of a, then of b; and the odd ones. */
#if VECTOR_BYTES == 16 && defined(DOUBLE)
#define EVEN 0, 2
#define ODD 1, 3
#elif VECTOR_BYTES == 32 && defined(DOUBLE)
#define EVEN 0, 4, 2, 6
#define ODD 1, 5, 3, 7
#elif defined(DOUBLE)
#define EVEN 0, 8, 2, 10, 4, 12, 6, 14
#define ODD 1, 9, 3, 11, 5, 13, 7, 15
#elif VECTOR_BYTES == 16
#define EVEN 0, 2, 4, 6
#define ODD 1, 3, 5, 7
#elif VECTOR_BYTES == 32
#define EVEN 0, 2, 8, 10, 4, 6, 12, 14
#define ODD 1, 3, 9, 11, 5, 7, 13, 15
#else
#define EVEN 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30
#define ODD 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31
#endif
#ifdef __clang__
#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK(a, b, ...) __builtin_shuffle(a, b, (ivec){__VA_ARGS__})
#endif

INLINE vec add_neighbors(vec a, vec b) { return PICK(a, b, EVEN) + PICK(a, b, ODD); }

/* The sum of the lanes of each of QUAD vectors. */
INLINE void sum_each(const vec *x, real *out) {
    vec sums[2] = {add_neighbors(x[0], x[1]), add_neighbors(x[2], x[3])};
    if (sizeof(real) == 4) sums[0] = add_neighbors(sums[0], sums[1]);
    for (int n = 0; n < QUAD; n++) {
        const int each = 16 / sizeof(real);
        out[n] = sums[n / each][n % each];
        for (int i = each; i < LANES; i += each) out[n] += sums[n / each][i + n % each];
    }
}

#endif
