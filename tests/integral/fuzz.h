/* Random numbers, memory and comparisons for the programs that try the kernels. */
#include <stdio.h>
#include <stdlib.h>

static uint64_t state;
static uint64_t next(void) { /* splitmix64 */
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static index below(index n) { return (index)(next() % (uint64_t)n); }
static double uniform(void) { return (double)(next() >> 11) / 9007199254740992.0; }

static void *take(index count, size_t size) { /* aligned as PyTorch aligns, and not a byte more */
    void *memory = NULL;
    if (posix_memalign(&memory, 64, (size_t)larger(count, 1) * size)) abort();
    return memory;
}

static void check(const char *what, double got, double expected, double scale) {
    double tolerance = sizeof(real) == 4 ? 2e-4 : 1e-11;
    if (fabs(got - expected) <= tolerance * (scale + fabs(expected))) return;
    fprintf(stderr, "%s: got %.9g, expected %.9g\n", what, got, expected);
    exit(1);
}

static void trial(void);

int main(int argc, char **argv) {
    long trials = argc > 1 ? atol(argv[1]) : 100;
    state = argc > 2 ? (uint64_t)atol(argv[2]) : 0;
    for (long i = 0; i < trials; i++) trial();
    printf("%ld trials\n", trials);
    return 0;
}
