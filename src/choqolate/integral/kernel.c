/* The pairwise integral, its softmax, and their gradients, without the (batch x pairs) matrix.
 *
 * The weights of an integral over M inputs fill a matrix w (M x M): a on the diagonal, b (min) above, c (max) below it.
 * Because min(x, y) + max(x, y) = x + y, one feature per pair is enough,
 *
 *     C(u) = sum_j linear_j u_j + sum_{j<l} (b_jl - c_jl) min(u_j, u_l),     linear_j = a_j + sum_l c_jl,
 *
 * and min(u_j, u_j) = u_j makes linear_j the "pair" (j, j). A minimum is computed in a register for a vector of rows
 * and multiplied at once with the weights of a tile of up to NODES integrals. It never goes to memory.
 *
 * This file is compiled once per precision and instruction set: DOUBLE selects the precision, SUFFIX ends the names of
 * the functions. There are no allocations and no global state: the caller provides all memory. Every sum is taken in
 * an order that does not depend on the number of threads.
 *
 * Arrays are contiguous, except the inputs u and the gradients g, which have a step for each of their three axes.
 */
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
#define EXP_DEGREE 13
#define MANTISSA 52
#define EXP_BIAS 1023
#define EXP_LOWEST -708.0
#define ROUNDING 0x1.8p52
#define LN2_HIGH 0x1.62e42fefa3800p-1
#define LN2_LOW 0x1.ef35793c76730p-45
#else
typedef float real;
typedef int32_t bits;
#define EXP_DEGREE 7
#define MANTISSA 23
#define EXP_BIAS 127
#define EXP_LOWEST -87.0f
#define ROUNDING 0x1.8p23f
#define LN2_HIGH 0x1.63p-1f
#define LN2_LOW -0x1.bd0106p-13f
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

#define NODES 8           /* integrals per tile: as many running sums as it takes to keep the multipliers busy */
#define CHUNK 8           /* vectors of rows that use a panel of weights before the next is fetched */
#define PANEL 4096        /* weights of a panel: half of the first-level cache */
#define GRADIENT_ROWS 512 /* rows of the batch that a gradient sums at a time */
#define BLOCK 16          /* columns at a time where a matrix is read both ways */
#ifndef GROUP
#define GROUP (1 << 19) /* weights prepared at a time */
#endif
#ifndef PARALLEL_FROM
#define PARALLEL_FROM 2e6 /* multiplications that are worth waking other threads for */
#endif

#define JOIN(a, b) a##_##b
#define NAMED(name, suffix) JOIN(name, suffix)
#define EXPORT(name) NAMED(name, SUFFIX)
#define INLINE static inline __attribute__((always_inline))

typedef ptrdiff_t index;
typedef real vec __attribute__((vector_size(VECTOR_BYTES)));
typedef bits ivec __attribute__((vector_size(VECTOR_BYTES)));
typedef real loose __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));

typedef struct {
    const real *data;
    index stack, row, column; /* steps */
} strided;

/* ---------------------------------------------------------------- small things */

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

/* One instruction where the compiler has a name for it. */
#if defined(__clang__)
#define minimum(a, b) __builtin_elementwise_min(a, b)
#define maximum(a, b) __builtin_elementwise_max(a, b)
#elif VECTOR_BYTES == 64 && defined(__AVX512F__) && defined(DOUBLE)
#define minimum(a, b) ((vec)_mm512_min_pd(a, b))
#define maximum(a, b) ((vec)_mm512_max_pd(a, b))
#elif VECTOR_BYTES == 64 && defined(__AVX512F__)
#define minimum(a, b) ((vec)_mm512_min_ps(a, b))
#define maximum(a, b) ((vec)_mm512_max_ps(a, b))
#elif VECTOR_BYTES == 32 && defined(__AVX__) && defined(DOUBLE)
#define minimum(a, b) ((vec)_mm256_min_pd(a, b))
#define maximum(a, b) ((vec)_mm256_max_pd(a, b))
#elif VECTOR_BYTES == 32 && defined(__AVX__)
#define minimum(a, b) ((vec)_mm256_min_ps(a, b))
#define maximum(a, b) ((vec)_mm256_max_ps(a, b))
#else
INLINE vec choose(ivec where, vec a, vec b) { return (vec)(((ivec)a & where) | ((ivec)b & ~where)); }
INLINE vec minimum(vec a, vec b) { return choose(a < b, a, b); }
INLINE vec maximum(vec a, vec b) { return choose(a > b, a, b); }
#endif

INLINE real sum_lanes(vec x) {
    real total = 0;
    for (int i = 0; i < LANES; i++) total += x[i];
    return total;
}

INLINE real sum_of(const real *x, index count) {
    vec sum = {0};
    index i = 0;
    for (; i + LANES <= count; i += LANES) sum += *(const loose *)(x + i);
    real total = sum_lanes(sum);
    for (; i < count; i++) total += x[i];
    return total;
}

/* exp(x) for x <= 0. With n = round(x / ln 2) and r = x - n ln 2: 2^n times the Taylor polynomial at r. */
INLINE vec exponential(vec x) {
    static const real inverse_factorial[] = {
        1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
        1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
    ivec vanishes = x < (vec){0} + (real)EXP_LOWEST; /* false for NaN, which passes through */
    vec shifted = maximum(x, (vec){0} + (real)EXP_LOWEST) * (real)1.4426950408889634 + (real)ROUNDING;
    vec n = shifted - (real)ROUNDING;
    vec r = (x - n * (real)LN2_HIGH) - n * (real)LN2_LOW;
    vec value = (vec){0} + inverse_factorial[EXP_DEGREE];
    for (int k = EXP_DEGREE - 1; k >= 0; k--) value = value * r + inverse_factorial[k];
    ivec exponent = (ivec)shifted - (ivec)((vec){0} + (real)ROUNDING) + (bits)EXP_BIAS;
    value *= (vec)(exponent << MANTISSA);
    return (vec)((ivec)value & ~vanishes);
}

#if LANES == 2
#define EVEN 0, 2
#define ODD 1, 3
#elif LANES == 4
#define EVEN 0, 2, 4, 6
#define ODD 1, 3, 5, 7
#elif LANES == 8
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD 1, 3, 5, 7, 9, 11, 13, 15
#else
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#endif
#ifdef __clang__
#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK(a, b, ...) __builtin_shuffle(a, b, (ivec){__VA_ARGS__})
#endif

INLINE vec add_neighbours(vec a, vec b) { return PICK(a, b, EVEN) + PICK(a, b, ODD); }

/* The sum of the lanes of each of NODES vectors. */
INLINE void sum_each(vec *x, real *out) {
    int left = NODES;
    for (int width = LANES; width > 1; width /= 2) {
        if (left == 1) x[0] = add_neighbours(x[0], x[0]);
        for (int i = 0; i < left / 2; i++) x[i] = add_neighbours(x[2 * i], x[2 * i + 1]);
        left = left > 1 ? left / 2 : 1;
    }
    for (int n = 0; n < NODES; n++) out[n] = x[n / LANES][n % LANES];
}

/* ---------------------------------------------------------------- weights */

/* Where the pairs (j, j), (j, j + 1), ... (j, M - 1) begin in a list of all pairs. */
INLINE index row_of_pairs(index j, index inputs) { return j * inputs - j * (j - 1) / 2; }
INLINE index pairs_of(index inputs) { return inputs * (inputs + 1) / 2; }

/* exp(theta - largest), and the sum of it. */
static double exponentials(const real *theta, real largest, index count, real *out) {
    double total = 0;
    for (index start = 0; start < count; start += 64 * LANES) {
        index stop = smaller(start + 64 * LANES, count), i = start;
        vec sum = {0};
        for (; i + LANES <= stop; i += LANES) {
            vec value = exponential(*(const loose *)(theta + i) - largest);
            *(loose *)(out + i) = value;
            sum += value;
        }
        total += sum_lanes(sum);
        if (i < stop) {
            vec last = (vec){0} + largest;
            for (index k = i; k < stop; k++) last[k - i] = theta[k];
            last = exponential(last - largest);
            for (index k = i; k < stop; k++) out[k] = last[k - i], total += last[k - i];
        }
    }
    return total;
}

static real largest_of(const real *x, index count) {
    vec best = (vec){0} + x[0];
    index i = 0;
    for (; i + LANES <= count; i += LANES) best = maximum(best, *(const loose *)(x + i));
    real found = best[0];
    for (int k = 1; k < LANES; k++) found = best[k] > found ? best[k] : found;
    for (; i < count; i++) found = x[i] > found ? x[i] : found;
    return found;
}

/* The softmax of a node's parameters, before it is divided by its sum; remembers its scale and returns the mass of all
 * pairs. */
static real normalise(const real *theta, index inputs, real *scale, real *out) {
    double singles = 0, total;
    scale[0] = largest_of(theta, inputs * inputs);
    total = exponentials(theta, scale[0], inputs * inputs, out);
    scale[1] = (real)(1 / total);
    for (index j = 0; j < inputs; j++) singles += out[j * (inputs + 1)];
    return (real)((total - singles) / total);
}

/* The coefficients of the pairs (j, l >= j) of a tile's nodes, for some j: b - c, and the linear ones at l = j.
 *
 * w holds the nodes' matrices one after the other, factors what they have to be multiplied by. The matrices are read
 * along rows and columns, so this goes by square blocks that stay in the first-level cache. */
static void prepare_block(const real *w, const real *factors, index first, index inputs, index width, real *out) {
    index last = smaller(first + BLOCK, inputs), matrix = inputs * inputs;
    real linear[NODES][BLOCK];
    for (index n = 0; n < width; n++)
        for (index j = first; j < last; j++) linear[n][j - first] = sum_of(w + n * matrix + j * inputs, j + 1);
    for (index block = first; block < inputs; block += BLOCK)
        for (index n = 0; n < width; n++)
            for (index j = first; j < last; j++) {
                const real *b = w + n * matrix + j * inputs, *c = w + n * matrix + j;
                real *pairs = out + (row_of_pairs(j, inputs) - j) * width + n, sum = 0;
                for (index l = larger(block, j + 1); l < smaller(block + BLOCK, inputs); l++) {
                    pairs[l * width] = factors[2 * n] * (b[l] - c[l * inputs]);
                    sum += c[l * inputs];
                }
                linear[n][j - first] += sum;
            }
    for (index j = first; j < last; j++)
        for (index n = 0; n < width; n++)
            out[row_of_pairs(j, inputs) * width + n] = factors[2 * n] * linear[n][j - first];
}

/* ---------------------------------------------------------------- rows */

/* LANES rows of x side by side, out[column][lane]; rows past the last are zero. */
static void transpose_rows(const strided *x, index stack, index first, index rows, index columns, real *out) {
    index filled = smaller(LANES, rows - first);
    for (index lane = 0; lane < filled; lane++) {
        const real *row = x->data + stack * x->stack + (first + lane) * x->row;
        for (index m = 0; m < columns; m++) out[m * LANES + lane] = row[m * x->column];
    }
    for (index lane = filled; lane < LANES; lane++)
        for (index m = 0; m < columns; m++) out[m * LANES + lane] = 0;
}

/* Add the pairs of rows first to last to the sums of the tile's nodes, for one vector of rows. */
INLINE void add_pairs(vec *sums, const real *weights, const vec *u, index first, index last, index inputs, int width) {
    vec sum[NODES] = {{0}};
    for (index j = first; j < last; j++) {
        vec own = u[j];
        for (index l = j; l < inputs; l++, weights += width) {
            vec low = minimum(own, u[l]);
            for (int n = 0; n < width; n++) sum[n] += weights[n] * low;
        }
    }
    for (int n = 0; n < width; n++) sums[n] += sum[n];
}

/* sums[n][lane] = sum over the rows of g[row][n][lane] * min(u_j[row][lane], u_l[row][lane]) */
INLINE void sum_minima(vec *sums, const vec *own, const vec *other, const vec *g, index vectors, int width) {
    vec sum[NODES] = {{0}};
    for (index v = 0; v < vectors; v++, g += width) {
        vec low = minimum(own[v], other[v]);
        for (int n = 0; n < width; n++) sum[n] += g[n] * low;
    }
    for (int n = 0; n < NODES; n++) sums[n] = sum[n];
}

/* Share the gradient of the features of pairs (j, l >= j) among their smaller members; ties count half for each. */
INLINE void share_gradient(vec *grad, const real *weights, const vec *u, const vec *g, index j, index inputs, int width) {
    vec own = u[j], mine = {0}, gs[NODES];
    for (int n = 0; n < width; n++) gs[n] = g[n], mine += weights[n] * gs[n];
    weights += width;
    for (index l = j + 1; l < inputs; l++, weights += width) {
        vec even = {0}, odd = {0}, other = u[l];
        for (int n = 0; n + 1 < width; n += 2) even += weights[n] * gs[n], odd += weights[n + 1] * gs[n + 1];
        if (width % 2) even += weights[width - 1] * gs[width - 1];
        vec half = (even + odd) * (real)0.5;
        vec signed_half = (vec)((ivec)half & (other > own)) - (vec)((ivec)half & (other < own));
        mine += half + signed_half;
        grad[l] += half - signed_half;
    }
    grad[j] += mine;
}

/* A loop over nodes is unrolled only if their number is known. */
#define BY_WIDTH(width, call) \
    switch (width) {          \
    case 1: call(1); break;   \
    case 2: call(2); break;   \
    case 3: call(3); break;   \
    case 4: call(4); break;   \
    case 5: call(5); break;   \
    case 6: call(6); break;   \
    case 7: call(7); break;   \
    default: call(8); break;  \
    }

/* ---------------------------------------------------------------- who works on what, in which memory */

typedef struct {
    index stacks, rows, inputs, nodes;
    strided u, g;                       /* inputs, and the gradient of the values */
    const real *theta;                  /* the weights or, with softmax, the parameters */
    int softmax;
    real *scale;                        /* (S, N, 2): maximum of a node's parameters, 1 / sum of exp(theta - maximum) */
    real *new_values, *new_mass;        /* to compute */
    const real *values, *mass, *g_mass; /* computed before; the gradient of the mass may be missing */
    real *grad;                         /* to compute */

    index tiles, group; /* tiles of nodes, and how many are worked on at a time */
    index pairs_space;  /* numbers of the prepared weights, or of the slopes, of a tile */
    index matrix_space; /* numbers of the weight matrices of a tile */
    index shared, own;  /* numbers that the threads of a team share, and that each has for itself */
    int teams, threads; /* stacks side by side, and the threads of each team */
} job;

/* A part of a job: a stack, and the tiles first to last of its nodes. */
typedef struct {
    const job *job;
    index stack, first, last;
    real *shared;
} part;

static job make_job(index stacks, index rows, index inputs, index nodes, int softmax, int threads) {
    job p = {.stacks = stacks, .rows = rows, .inputs = inputs, .nodes = nodes, .softmax = softmax};
    index width = smaller(NODES, nodes);
    double work = 0.5 * (double)stacks * (double)rows * (double)inputs * (double)inputs * (double)nodes;
    if (work < PARALLEL_FROM) threads = 1;
    p.teams = stacks >= threads ? threads : 1;
    p.threads = p.teams > 1 ? 1 : threads;
    p.tiles = parts_of(nodes, NODES);
    p.pairs_space = round_up(pairs_of(inputs) * width);
    p.matrix_space = softmax ? round_up(inputs * inputs * width) : 0;
    p.group = smaller(larger(GROUP / larger(p.pairs_space, 1), 1), larger(p.tiles, 1));
    p.shared = p.group * (p.pairs_space + larger(p.matrix_space, (GRADIENT_ROWS + 2) * NODES)) +
               round_up(inputs * GRADIENT_ROWS);
    p.own = round_up(CHUNK * LANES * (2 * inputs + NODES));
    return p;
}

/* Numbers of workspace that any of the functions needs. */
index EXPORT(choquet_workspace)(index stacks, index rows, index inputs, index nodes, int softmax, int threads) {
    job p = make_job(stacks, rows, inputs, nodes, softmax, threads);
    return p.teams * (p.shared + p.threads * p.own);
}

/* Do a task for every stack: one after the other by all threads, or side by side by one thread each. */
static void for_each_stack(const job *p, void (*task)(const job *, index, real *), real *work) {
    if (p->teams == 1) {
        for (index stack = 0; stack < p->stacks; stack++) task(p, stack, work);
        return;
    }
#pragma omp parallel for num_threads(p->teams) schedule(dynamic)
    for (index stack = 0; stack < p->stacks; stack++) task(p, stack, work + this_thread() * (p->shared + p->own));
}

/* Do a task for every group of tiles of a stack. All threads of the team call it, each with memory of its own. */
static void for_each_group(const job *p, index stack, void (*task)(const part *, real *), real *work) {
#pragma omp parallel num_threads(p->threads) if (p->threads > 1)
    for (index first = 0; first < p->tiles; first += p->group) {
        part at = {p, stack, first, smaller(first + p->group, p->tiles), work};
        task(&at, work + p->shared + this_thread() * p->own);
    }
}

INLINE index width_of(const job *p, index tile) { return smaller(NODES, p->nodes - tile * NODES); }
INLINE index first_node(const part *at) { return at->first * NODES; }
INLINE index last_node(const part *at) { return smaller(at->last * NODES, at->job->nodes); }
INLINE index matrix_of(const part *at, index node) {
    return (at->stack * at->job->nodes + node) * at->job->inputs * at->job->inputs;
}
INLINE real *scale_of(const part *at, index node) { return at->job->scale + 2 * (at->stack * at->job->nodes + node); }
INLINE real *pairs_of_tile(const part *at, index tile) { return at->shared + (tile - at->first) * at->job->pairs_space; }
INLINE strided tile_of_g(const part *at, index tile) {
    strided g = at->job->g;
    g.data += tile * NODES * g.column;
    return g;
}

/* Prepare the coefficients of the pairs of all tiles of a group. */
static void prepare(const part *at) {
    static const real one[2 * NODES] = {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0};
    const job *p = at->job;
    index inputs = p->inputs, blocks = parts_of(inputs, BLOCK), tiles = at->last - at->first;
    real *softmax = at->shared + p->group * p->pairs_space;
    if (p->softmax) {
#pragma omp for schedule(dynamic)
        for (index node = first_node(at); node < last_node(at); node++) {
            const real *theta = p->theta + matrix_of(at, node);
            real *scale = scale_of(at, node);
            real *out = softmax + (node / NODES - at->first) * p->matrix_space + node % NODES * inputs * inputs;
            if (p->new_mass)
                p->new_mass[at->stack * p->nodes + node] = normalise(theta, inputs, scale, out);
            else
                exponentials(theta, scale[0], inputs * inputs, out);
        }
    }
#pragma omp for schedule(dynamic)
    for (index item = 0; item < tiles * blocks; item++) {
        index tile = at->first + item / blocks;
        const real *w = p->softmax ? softmax + (tile - at->first) * p->matrix_space : p->theta + matrix_of(at, tile * NODES);
        const real *factors = p->softmax ? scale_of(at, tile * NODES) + 1 : one;
        prepare_block(w, factors, item % blocks * BLOCK, inputs, width_of(p, tile), pairs_of_tile(at, tile));
    }
}

/* ---------------------------------------------------------------- values */

/* The values of a tile's nodes, for a chunk of rows that is laid out in u. */
static void integrate_tile(const part *at, index tile, index start, index vectors, const real *u) {
    const job *p = at->job;
    index inputs = p->inputs, width = width_of(p, tile);
    const real *weights = pairs_of_tile(at, tile);
    real *values = p->new_values + (at->stack * p->rows + start) * p->nodes + tile * NODES;
    vec sums[CHUNK][NODES] = {{{0}}};
    for (index j = 0, last; j < inputs; j = last) { /* rows j to last of the pairs are a panel */
        for (last = j + 1; last < inputs; last++)
            if ((row_of_pairs(last + 1, inputs) - row_of_pairs(j, inputs)) * width > PANEL) break;
        for (index v = 0; v < vectors; v++) {
            const real *panel = weights + row_of_pairs(j, inputs) * width;
            const vec *rows = (const vec *)(u + v * inputs * LANES);
#define CALL(w) add_pairs(sums[v], panel, rows, j, last, inputs, w)
            BY_WIDTH(width, CALL)
#undef CALL
        }
    }
    for (index row = 0; row < smaller(vectors * LANES, p->rows - start); row++)
        for (index n = 0; n < width; n++) values[row * p->nodes + n] = sums[row / LANES][n][row % LANES];
}

static void integrate_group(const part *at, real *own) {
    const job *p = at->job;
    prepare(at);
#pragma omp for schedule(dynamic)
    for (index start = 0; start < p->rows; start += CHUNK * LANES) {
        index vectors = parts_of(smaller(p->rows - start, CHUNK * LANES), LANES);
        for (index v = 0; v < vectors; v++)
            transpose_rows(&p->u, at->stack, start + v * LANES, p->rows, p->inputs, own + v * p->inputs * LANES);
        for (index tile = at->first; tile < at->last; tile++) integrate_tile(at, tile, start, vectors, own);
    }
}

static void integrate_stack(const job *p, index stack, real *work) { for_each_group(p, stack, integrate_group, work); }

/* values (S, B, N) of the integrals; with softmax, also the mass (S, N) of their pairs and their scale (S, N, 2). */
void EXPORT(choquet_values)(const real *u, index u_stack, index u_row, index u_column, const real *theta, int softmax,
                            real *values, real *mass, real *scale, index stacks, index rows, index inputs, index nodes,
                            real *work, int threads) {
    job p = make_job(stacks, rows, inputs, nodes, softmax, threads);
    p.u = (strided){u, u_stack, u_row, u_column};
    p.theta = theta, p.scale = scale;
    p.new_values = values, p.new_mass = mass;
    for_each_stack(&p, integrate_stack, work);
}

/* ---------------------------------------------------------------- gradient of the inputs */

/* The gradient of a vector of rows, from all tiles of a group; added to that of the groups before. */
static void share_rows(const part *at, index row, real *own) {
    const job *p = at->job;
    index inputs = p->inputs;
    vec *u = (vec *)own, *grad = u + inputs, *g = grad + inputs;
    real *out = p->grad + (at->stack * p->rows + row) * inputs;
    transpose_rows(&p->u, at->stack, row, p->rows, inputs, (real *)u);
    for (index j = 0; j < inputs; j++) grad[j] = (vec){0};
    for (index tile = at->first; tile < at->last; tile++) {
        index width = width_of(p, tile);
        strided of_tile = tile_of_g(at, tile);
        transpose_rows(&of_tile, at->stack, row, p->rows, width, (real *)g);
        for (index j = 0; j < inputs; j++) {
            const real *panel = pairs_of_tile(at, tile) + row_of_pairs(j, inputs) * width;
#define CALL(w) share_gradient(grad, panel, u, g, j, inputs, w)
            BY_WIDTH(width, CALL)
#undef CALL
        }
    }
    for (index lane = 0; lane < smaller(LANES, p->rows - row); lane++, out += inputs)
        for (index j = 0; j < inputs; j++) out[j] = at->first ? out[j] + grad[j][lane] : grad[j][lane];
}

static void share_group(const part *at, real *own) {
    prepare(at);
#pragma omp for schedule(dynamic, 4)
    for (index row = 0; row < at->job->rows; row += LANES) share_rows(at, row, own);
}

static void share_stack(const job *p, index stack, real *work) { for_each_group(p, stack, share_group, work); }

/* grad (S, B, M) of the inputs, from the gradient g (S, B, N) of the values; scale as choquet_values left it. */
void EXPORT(choquet_input_gradient)(const real *u, index u_stack, index u_row, index u_column, const real *theta,
                                    int softmax, real *scale, const real *g, index g_stack, index g_row,
                                    index g_column, real *grad, index stacks, index rows, index inputs, index nodes,
                                    real *work, int threads) {
    job p = make_job(stacks, rows, inputs, nodes, softmax, threads);
    p.u = (strided){u, u_stack, u_row, u_column}, p.g = (strided){g, g_stack, g_row, g_column};
    p.theta = theta, p.scale = scale, p.grad = grad;
    for_each_stack(&p, share_stack, work);
}

/* ---------------------------------------------------------------- gradient of the weights */

/* Slopes of the pairs (j, l >= j) for a tile: sums over the rows of g * min(u_j, u_l), added to those of rows before.
 * by_input is (inputs, batch), by_node (vectors, width, LANES). */
static void slopes_of_row(const real *by_input, index batch, const real *by_node, index j, index inputs, index width,
                          int first_time, real *slopes) {
    const vec *own = (const vec *)(by_input + j * batch);
    for (index l = j; l < inputs; l++, slopes += width) {
        const vec *other = (const vec *)(by_input + l * batch);
        vec sums[NODES];
        real each[NODES];
#define CALL(w) sum_minima(sums, own, other, (const vec *)by_node, batch / LANES, w)
        BY_WIDTH(width, CALL)
#undef CALL
        sum_each(sums, each);
        for (index n = 0; n < width; n++) slopes[n] = first_time ? each[n] : slopes[n] + each[n];
    }
}

/* Slopes of all pairs of a group's tiles for some rows of the batch. */
static void slopes_of_rows(const part *at, index start, real *by_input, real *by_node, real *own) {
    const job *p = at->job;
    index inputs = p->inputs, rows = p->rows;
    index batch = parts_of(smaller(rows - start, GRADIENT_ROWS), LANES) * LANES;
#pragma omp for schedule(static)
    for (index row = 0; row < batch; row += LANES) {
        transpose_rows(&p->u, at->stack, start + row, rows, inputs, own);
        for (index j = 0; j < inputs; j++) *(vec *)(by_input + j * batch + row) = *(const vec *)(own + j * LANES);
        for (index tile = at->first; tile < at->last; tile++) {
            strided of_tile = tile_of_g(at, tile);
            index width = width_of(p, tile);
            transpose_rows(&of_tile, at->stack, start + row, rows, width,
                           by_node + (tile - at->first) * NODES * batch + row * width);
        }
    }
#pragma omp for schedule(dynamic, 4)
    for (index item = 0; item < (at->last - at->first) * inputs; item++) {
        index tile = at->first + item / inputs, j = item % inputs, width = width_of(p, tile);
        slopes_of_row(by_input, batch, by_node + (tile - at->first) * NODES * batch, j, inputs, width, start == 0,
                      pairs_of_tile(at, tile) + row_of_pairs(j, inputs) * width);
    }
}

/* The mean slope of each node of a tile under its weights, which is the gradient of the value times the value: the
 * integral is linear in the weights. So is one minus the mass. */
static void mean_slopes(const part *at, index tile, real *means) {
    const job *p = at->job;
    index width = width_of(p, tile), node = at->stack * p->nodes + tile * NODES;
    const real *values = p->values + at->stack * p->rows * p->nodes + tile * NODES;
    const real *g = p->g.data + at->stack * p->g.stack + tile * NODES * p->g.column;
    double sums[NODES] = {0};
    for (index b = 0; b < p->rows; b++)
        for (index n = 0; n < width; n++) sums[n] += (double)g[b * p->g.row + n * p->g.column] * values[b * p->nodes + n];
    for (index n = 0; n < width; n++)
        means[n] = (real)(sums[n] + (p->g_mass ? p->g_mass[node + n] * ((double)p->mass[node + n] - 1) : 0));
}

/* From the slopes of the pairs (j, l > j) of a node, for some j, to the gradient of its weights.
 *
 * d min = slope, d max = slope_j + slope_l - slope. By Proposition 1 the gradient of a parameter is its weight, which
 * stands in grad and is multiplied by a factor, times its slope less the mean slope. */
static void finish_block(const real *slopes, index width, index first, index inputs, real factor, real mean,
                         real mass_slope, real *grad) {
    index last = smaller(first + BLOCK, inputs);
    const real *low[BLOCK];
    real own[BLOCK]; /* slopes of the inputs alone */
    for (index j = first; j < last; j++) {
        low[j - first] = slopes + (row_of_pairs(j, inputs) - j) * width;
        own[j - first] = low[j - first][j * width];
    }
    for (index block = first; block < inputs; block += BLOCK) {
        index end = smaller(block + BLOCK, inputs);
        for (index j = first; j < last; j++)
            for (index l = larger(block, j + 1); l < end; l++)
                grad[j * inputs + l] *= factor * (low[j - first][l * width] - mean);
        for (index l = larger(block, first + 1); l < end; l++) {
            real other = slopes[row_of_pairs(l, inputs) * width] - mean;
            for (index j = first; j < smaller(last, l); j++)
                grad[l * inputs + j] *= factor * (own[j - first] + other - low[j - first][l * width]);
        }
    }
    for (index j = first; j < last; j++) grad[j * (inputs + 1)] *= factor * (own[j - first] - mean - mass_slope);
}

/* The gradients of a group's tiles from their slopes. */
static void finish(const part *at, real *means) {
    const job *p = at->job;
    index inputs = p->inputs, blocks = parts_of(inputs, BLOCK), tiles = at->last - at->first;
    if (p->softmax) {
#pragma omp for schedule(static) nowait
        for (index tile = at->first; tile < at->last; tile++)
            mean_slopes(at, tile, means + (tile - at->first) * NODES);
    }
#pragma omp for schedule(dynamic)
    for (index node = first_node(at); node < last_node(at); node++) {
        real *grad = p->grad + matrix_of(at, node);
        if (p->softmax)
            exponentials(p->theta + matrix_of(at, node), scale_of(at, node)[0], inputs * inputs, grad);
        else
            for (index i = 0; i < inputs * inputs; i++) grad[i] = 1;
    }
#pragma omp for schedule(dynamic)
    for (index item = 0; item < tiles * blocks; item++) {
        index tile = at->first + item / blocks, width = width_of(p, tile);
        for (index n = 0; n < width; n++) {
            index node = tile * NODES + n;
            finish_block(pairs_of_tile(at, tile) + n, width, item % blocks * BLOCK, inputs,
                         p->softmax ? scale_of(at, node)[1] : 1, p->softmax ? means[node - first_node(at)] : 0,
                         p->softmax && p->g_mass ? p->g_mass[at->stack * p->nodes + node] : 0,
                         p->grad + matrix_of(at, node));
        }
    }
}

static void slope_group(const part *at, real *own) {
    const job *p = at->job;
    real *by_input = at->shared + p->group * p->pairs_space;
    real *by_node = by_input + round_up(p->inputs * GRADIENT_ROWS);
    for (index start = 0; start < larger(p->rows, 1); start += GRADIENT_ROWS)
        slopes_of_rows(at, start, by_input, by_node, own);
    finish(at, by_node + p->group * GRADIENT_ROWS * NODES);
}

static void slope_stack(const job *p, index stack, real *work) { for_each_group(p, stack, slope_group, work); }

/* grad (S, N, M, M) of the weights; with softmax, of the parameters, to which the gradient of the mass also flows. */
void EXPORT(choquet_weight_gradient)(const real *u, index u_stack, index u_row, index u_column, const real *theta,
                                     int softmax, real *scale, const real *values, const real *mass, const real *g,
                                     index g_stack, index g_row, index g_column, const real *g_mass, real *grad,
                                     index stacks, index rows, index inputs, index nodes, real *work, int threads) {
    job p = make_job(stacks, rows, inputs, nodes, softmax, threads);
    p.u = (strided){u, u_stack, u_row, u_column}, p.g = (strided){g, g_stack, g_row, g_column};
    p.theta = theta, p.scale = scale;
    p.values = values, p.mass = mass, p.g_mass = g_mass, p.grad = grad;
    for_each_stack(&p, slope_stack, work);
}
